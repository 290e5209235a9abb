package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/web"
)

func getCommand(a *process) *cobra.Command {
	var (
		t     target
		name  string
		force bool
	)
	cmd := &cobra.Command{
		Use:   "get HANDLE",
		Short: "Write a kept result, whole",
		Long: `Write a result that the gateway kept, byte for byte: a long text, a table as it
was stored, a picture, a sound or a file. Without -o it goes to standard output;
what is binary is not written to a screen.

Handles live in the gateway that gave them, for the token that made the call. A
table in another format is for weir table, a part of a text for weir view.

A file that is there stays as it is unless --force is given, and keeps its
permissions then. What is written is there whole or not at all. A symbolic link
is not followed.`,
		Example: `  weir get art_… -o build.log
  weir get art_… | jq '.items[0]'`,
		Args:              positional(cobra.ExactArgs(1)),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return getArtifact(a, cmd.Context(), t, args[0], name, force)
		},
	}
	t.runningFlags(cmd)
	cmd.Flags().StringVarP(&name, "output", "o", "", "file to write; default: standard output")
	cmd.Flags().BoolVar(&force, "force", false, "write over a file that is there")
	return cmd
}

// getArtifact writes a kept result to a file, or to standard output if name is empty.
func getArtifact(a *process, ctx context.Context, t target, handle, name string, force bool) error {
	at, token, err := runningURL(a, ctx, t)
	if err != nil {
		return err
	}
	if at == "" {
		return failf(exitUsage, "no gateway runs for this folder's configuration, and handles end with the process that gave them: run weir serve, call the tool there, and get its handle there")
	}
	from, err := siblingURL(at, strings.TrimPrefix(web.ArtifactPath, "/"))
	if err != nil {
		return err
	}
	body, err := openArtifact(ctx, from+url.PathEscape(handle), token)
	if err != nil {
		return err
	}
	defer body.Body.Close()
	in := bufio.NewReaderSize(body.Body, 32<<10)
	if name == "" && a.stdout.screen() {
		if start, _ := in.Peek(peekBytes); isBinary(start) { // a read error shows below
			return failf(exitUsage, "%s is %s, and this is a screen: name a file with -o, or send standard output to a pipe", handle, mediaText(body.Header.Get("Content-Type"), body.ContentLength))
		}
	}
	out, finish, err := createFile(a.stdout, name, force)
	if err != nil {
		return err
	}
	if name == "" {
		out = a.stdout // a screen shows no control sequences of others
	}
	bar := newBar(a, body.ContentLength)
	n, err := io.Copy(io.MultiWriter(out, bar), in)
	bar.end()
	if err != nil {
		err = copyFailure(ctx, err)
	}
	if err = finish(err); err != nil {
		return err
	}
	if name != "" {
		a.note("%s written to %s", sizeText(int(n)), name)
	}
	return nil
}

// copyFailure says whether the gateway or the output broke off.
func copyFailure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return failf(exitUnavailable, "the gateway broke off in the middle: %w", err)
	}
	return fmt.Errorf("writing the result: %w", pathCause(err))
}

// openArtifact asks a gateway for a kept result. The caller closes the body.
func openArtifact(ctx context.Context, from, token string) (*http.Response, error) {
	resp, err := request{
		method: http.MethodGet, url: from, token: token,
		header: http.Header{"Accept-Encoding": {"identity"}}, // the length is shown
	}.send(ctx)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	at := resp.Request.URL
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // only shown to the user
	switch message := rawjson.Text(rawjson.Get(said, "error")); {
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, errToken(at.Scheme+"://"+at.Host, token)
	case message != "":
		return nil, failf(exitRefused, "%s", message)
	}
	return nil, failf(exitUnavailable, "%s answered %s: is it a weir gateway of this version?", at.Host, resp.Status)
}

// peekBytes is how much of a result decides whether it is text.
const peekBytes = 1024

// isBinary reports whether the beginning of a result is no text.
func isBinary(start []byte) bool {
	if bytes.IndexByte(start, 0) >= 0 {
		return true
	}
	if n := len(start) - incomplete(start); len(start) == peekBytes {
		start = start[:n] // a character may be cut in two
	}
	return !utf8.Valid(start)
}

// mediaText describes binary content: image/png, 1.2 MB.
func mediaText(mediaType string, size int64) string {
	if mediaType == "" || mediaType == "application/octet-stream" {
		mediaType = "binary"
	}
	if size < 0 {
		return mediaType
	}
	return mediaType + ", " + sizeText(int(size))
}
