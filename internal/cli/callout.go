package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// The forms in which weir call prints a result.
const (
	formText     = "text"     // as an agent reads it: a long result is described
	formRaw      = "raw"      // only the content of the result, whole
	formJSON     = "json"     // the result as the server answered it, whole
	formEnvelope = "envelope" // the gateway's envelope of the result, as JSON
)

// A callOutput says where the result of a call goes and how.
type callOutput struct {
	form  string
	file  string // "" for standard output
	force bool   // overwrite an existing file
}

// outputFlags are the flags of a callOutput.
type outputFlags struct {
	raw, envelope, force bool
	output               string
}

func (f *outputFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.raw, "raw", false, "print the whole result and nothing else: texts as they are, one after the other")
	cmd.Flags().BoolVar(&f.envelope, "envelope", false, "print what the gateway tells of the result as JSON: status, facts, handles, views")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "file for the whole result: its picture, sound or other file, else its text; or text or json, as --json")
	cmd.Flags().BoolVar(&f.force, "force", false, "with -o: write over a file that is there")
	cmd.MarkFlagsMutuallyExclusive("raw", "envelope")
}

// read returns the output that the flags ask for. asJSON is set if --json has no value.
func (f *outputFlags) read(asJSON bool) (callOutput, error) {
	out := callOutput{form: formText, file: f.output, force: f.force}
	switch f.output { // the old names of the forms; ./json is a file
	case formText:
		out.file = ""
	case formJSON:
		out.file, asJSON = "", true
	}
	switch {
	case asJSON && (f.raw || f.envelope):
		return out, failf(exitUsage, "--json, --raw and --envelope print the result in different forms: keep one of them")
	case f.envelope && out.file != "":
		return out, failf(exitUsage, "--envelope and -o %s: a file gets the result itself", out.file)
	case asJSON:
		out.form = formJSON
	case f.envelope:
		out.form = formEnvelope
	case f.raw || out.file != "":
		out.form = formRaw
	}
	return out, nil
}

// wire is the format to ask the gateway for.
func (o callOutput) wire() string {
	switch o.form {
	case formText:
		return "text"
	case formEnvelope:
		return "json"
	}
	return "raw"
}

// program reports whether a program reads the output, so that errors are also JSON.
func (o callOutput) program() bool { return o.form == formJSON || o.form == formEnvelope }

// open prepares the output before the tool runs: a file that cannot be written must not cost a
// result. The caller calls done with the error of everything that follows.
func (o callOutput) open(a *process) (w *resultWriter, done func(error) error, err error) {
	w = &resultWriter{a: a, output: o}
	if o.file == "" {
		return w, func(err error) error { return err }, nil
	}
	file, finish, err := createFile(a.stdout, o.file, o.force)
	if err != nil {
		return nil, nil, err
	}
	w.file = file
	return w, func(err error) error {
		if err = finish(err); err == nil {
			for _, note := range w.notes {
				a.note("%s", note)
			}
		}
		return err
	}, nil
}

// A resultWriter writes the result of one call.
type resultWriter struct {
	a      *process
	output callOutput
	file   io.Writer // nil for standard output
	notes  []string  // files that were written
}

// write writes a result. An error result is printed, never written to a file; it ends with exitTool.
func (w *resultWriter) write(r *toolResult) error {
	err := w.form(r)
	if err == nil && r.IsError {
		return errQuiet(exitTool)
	}
	return err
}

func (w *resultWriter) form(r *toolResult) error {
	switch {
	case w.output.form == formText:
		return printResult(w.a, r)
	case w.output.form == formEnvelope:
		return printJSON(w.a.stdout, r.forPrograms())
	case w.output.form == formJSON && (w.file == nil || r.IsError):
		return printJSON(w.a.stdout, r.raw)
	case w.output.form == formJSON:
		w.wrote("the result", w.output.file)
		return printJSON(w.file, r.raw)
	}
	pieces, err := piecesOf(r)
	switch {
	case err != nil:
		return err
	case r.IsError:
		return w.print(w.a.stderr, pieces)
	case w.file != nil:
		return w.save(pieces)
	}
	return w.print(w.a.stdout, pieces)
}

// A piece is the content of one block, decoded.
type piece struct {
	data   []byte
	binary bool
	kind   string // media type, for messages
}

// piecesOf decodes the blocks of a result. A result without blocks is its structuredContent.
func piecesOf(r *toolResult) ([]piece, error) {
	var result struct{ Content []json.RawMessage }
	if err := json.Unmarshal(r.raw, &result); err != nil {
		return nil, failf(exitUnavailable, "the content of the result cannot be read: %w", err)
	}
	var pieces []piece
	for i, p := range r.Content {
		one, err := pieceOf(p, result.Content[i])
		if err != nil {
			return nil, failf(exitUnavailable, "block %d of the result: %w", i, err)
		}
		pieces = append(pieces, one)
	}
	if structured := rawjson.Get(r.raw, "structuredContent"); len(pieces) == 0 && len(structured) > 0 && string(structured) != "null" {
		pieces = append(pieces, piece{data: structured})
	}
	return pieces, nil
}

func pieceOf(p contentBlock, raw json.RawMessage) (piece, error) {
	switch p.Type {
	case "text":
		return piece{data: []byte(p.Text)}, nil
	case "image", "audio":
		return decoded(p.Data, p.MimeType)
	case "resource":
		if blob := rawjson.Get(p.Resource, "blob"); blob != nil {
			return decoded(rawjson.Text(blob), rawjson.Text(rawjson.Get(p.Resource, "mimeType")))
		}
		if text := rawjson.Get(p.Resource, "text"); text != nil {
			return piece{data: []byte(rawjson.Text(text))}, nil
		}
	case "resource_link":
		return piece{data: []byte(p.URI)}, nil
	}
	return piece{data: raw}, nil // a block of a type that weir does not know
}

func decoded(base64Text, mediaType string) (piece, error) {
	data, err := base64.StdEncoding.DecodeString(base64Text)
	if err != nil {
		return piece{}, fmt.Errorf("the server's base64 cannot be read: %w", err)
	}
	return piece{data: data, binary: true, kind: mediaType}, nil
}

// print writes all pieces to an output, one after the other. Screens get texts only.
func (w *resultWriter) print(to terminal, pieces []piece) error {
	var hidden []string
	shown := pieces[:0:0]
	for _, p := range pieces {
		if p.binary && to.screen() {
			hidden = append(hidden, mediaText(p.kind, int64(len(p.data))))
			continue
		}
		shown = append(shown, p)
	}
	if err := writePieces(to, shown, to.screen()); err != nil {
		return err
	}
	if len(hidden) > 0 {
		return failf(exitUsage, "the tool has run, and its result holds what no screen shows: %s. Name a file with -o FILE, or send standard output to a pipe", strings.Join(hidden, "; "))
	}
	return nil
}

// writePieces writes pieces one after the other. A text starts on a line of its own. Nothing
// else is added, except the end of the last line on screens.
func writePieces(to io.Writer, pieces []piece, ended bool) error {
	for i, p := range pieces {
		last := i == len(pieces)-1
		if !p.binary && !bytes.HasSuffix(p.data, []byte("\n")) && (last && ended || !last && !pieces[i+1].binary) {
			p.data = append(p.data[:len(p.data):len(p.data)], '\n')
		}
		if _, err := to.Write(p.data); err != nil {
			return err
		}
	}
	return nil
}

// save writes the binary pieces to files and prints the texts. Without binary pieces, the file gets
// the texts.
func (w *resultWriter) save(pieces []piece) error {
	var texts, files []piece
	for _, p := range pieces {
		if p.binary {
			files = append(files, p)
		} else {
			texts = append(texts, p)
		}
	}
	if len(files) == 0 {
		size := 0
		for _, p := range texts {
			size += len(p.data)
		}
		w.wrote(sizeText(size), w.output.file)
		return writePieces(w.file, texts, false)
	}
	for i, p := range files {
		if i == 0 {
			if _, err := w.file.Write(p.data); err != nil {
				return err
			}
			w.wrote(mediaText(p.kind, int64(len(p.data))), w.output.file)
			continue
		}
		if err := w.saveNext(i+1, p); err != nil {
			return err
		}
	}
	return writePieces(w.a.stdout, texts, w.a.stdout.screen())
}

// maxNumbered bounds the search for a free name.
const maxNumbered = 10_000

// saveNext writes a further file of a result: shot-2.png after shot.png. It writes over no file that
// is there unless it is told so: it takes the next number.
func (w *resultWriter) saveNext(n int, p piece) error {
	ext := filepath.Ext(w.output.file)
	for ; n < maxNumbered; n++ {
		name := fmt.Sprintf("%s-%d%s", strings.TrimSuffix(w.output.file, ext), n, ext)
		if _, err := os.Lstat(name); err == nil && !w.output.force {
			continue
		}
		out, finish, err := createFile(w.a.stdout, name, w.output.force)
		if err != nil {
			return err
		}
		_, err = out.Write(p.data)
		if err = finish(err); err != nil {
			return err
		}
		w.wrote(mediaText(p.kind, int64(len(p.data))), name)
		return nil
	}
	return errors.New("there is no free name for a further file of the result")
}

func (w *resultWriter) wrote(what, name string) {
	w.notes = append(w.notes, fmt.Sprintf("%s written to %s", what, name))
}
