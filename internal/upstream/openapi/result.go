package openapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Bounds of an answer that has no end of its own.
const (
	maxStream  = 256 << 10
	streamTime = 20 * time.Second
)

// result returns the result of a tool for an answer of the API. Statuses of 400 and above are errors of the tool.
func (a *API) result(ctx context.Context, resp *http.Response) (json.RawMessage, error) {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	cut := ""
	var data []byte
	var block *memory.Block
	var err error
	if media == "text/event-stream" || strings.HasSuffix(media, "ndjson") || strings.HasSuffix(media, "json-seq") {
		data, cut = readStream(resp.Body)
	} else if data, block, err = a.read(ctx, resp); err != nil {
		return nil, err
	}
	hold := a.o.Room.Hold()
	if err := hold.Grow(ctx, 4*int64(len(data))+1<<10); err != nil {
		block.Release()
		return nil, mcp.Answered(mcp.NoRoom(a.o.Name+" answered", err))
	}
	out := resultOf(resp, media, data, cut)
	block.Release()
	return memory.Held(out, &hold).Deliver(ctx, out), nil
}

// read reads an answer within the bound on one message.
func (a *API) read(ctx context.Context, resp *http.Response) ([]byte, *memory.Block, error) {
	b := a.o.Room.NewBuffer(ctx, a.o.MaxResponse)
	err := b.Fill(resp.Body, resp.ContentLength)
	var block *memory.Block
	if err == nil {
		block, err = b.Block()
	} else {
		b.Drop()
	}
	if err == nil {
		var data []byte
		if data, err = block.Open(ctx); err == nil {
			return data, block, nil
		}
		block.Release()
	}
	if errors.Is(err, memory.ErrTooLarge) {
		hint := ""
		if a.o.MaxResponseKey != "" {
			hint = "; " + a.o.MaxResponseKey + " allows more"
		}
		return nil, nil, mcp.Answered(mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered with more than %d bytes%s", a.o.Name, a.o.MaxResponse, hint))
	}
	if full := mcp.NoRoom(a.o.Name+" answered", err); full != err {
		return nil, nil, mcp.Answered(full)
	}
	return nil, nil, a.failed(err)
}

// readStream reads the start of an answer that may never end.
func readStream(r io.ReadCloser) (data []byte, cut string) {
	timer := time.AfterFunc(streamTime, func() { _ = r.Close() })
	data, err := io.ReadAll(io.LimitReader(r, maxStream+1))
	switch ended := timer.Stop(); {
	case len(data) > maxStream:
		data, cut = data[:maxStream], fmt.Sprintf("The stream is cut after %d bytes.", maxStream)
	case err != nil && !ended:
		cut = fmt.Sprintf("The stream is cut after %s.", streamTime)
	case err != nil:
		cut = "The stream broke here."
	}
	return data, cut
}

// resultOf returns the result of a tool.
func resultOf(resp *http.Response, media string, data []byte, cut string) json.RawMessage {
	status := fmt.Sprintf("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	failed := resp.StatusCode >= http.StatusBadRequest
	out := append(make([]byte, 0, len(data)*3/2+512), `{"content":[`...)
	first := true
	say := func(s []byte) {
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(rawjson.AppendText(append(out, `{"type":"text","text":`...), s), '}')
	}
	structured := false
	switch {
	case isJSON(media) && len(data) > 0 && rawjson.Valid(data) == nil:
		if failed {
			say([]byte(problem(status, data)))
		}
		say(data)
		structured = rawjson.IsObject(data) && !failed
	case len(data) == 0:
		say([]byte(strings.TrimSpace(status)))
	case isText(media, data):
		if failed {
			say([]byte(status))
		}
		say(data)
	default:
		if failed {
			say([]byte(status))
			first = false
			out = append(out, ',')
		}
		out = appendBinary(out, resp, media, data)
		first = false
	}
	if cut != "" {
		say([]byte(cut))
	}
	out = append(out, ']')
	if structured {
		out = append(append(out, `,"structuredContent":`...), data...)
	}
	if failed {
		out = append(out, `,"isError":true`...)
	}
	return append(out, '}')
}

// problem returns the line that leads the error of an API: its status, with title and detail of RFC 9457 or a message.
func problem(status string, data []byte) string {
	line := status
	for _, key := range []string{"title", "detail", "message"} {
		if said := rawjson.Text(rawjson.Get(data, key)); said != "" && !strings.Contains(line, said) {
			line += ": " + text.Line(said, 300)
		}
	}
	return line
}

// isText reports whether bytes are a text.
func isText(media string, data []byte) bool {
	if strings.HasPrefix(media, "text/") || isJSON(media) || strings.HasSuffix(media, "json") || strings.HasSuffix(media, "json-seq") {
		return true
	}
	switch media {
	case "application/xml", "application/yaml", "application/x-yaml", "application/javascript", formMedia:
		return true
	case "":
		return strings.HasPrefix(http.DetectContentType(data), "text/")
	}
	return strings.HasSuffix(media, "+xml") && !strings.HasPrefix(media, "image/")
}

// appendBinary appends a block with bytes: an image, a sound, or a resource that is named by the path of the request.
func appendBinary(out []byte, resp *http.Response, media string, data []byte) []byte {
	if media == "" {
		media = "application/octet-stream"
	}
	kind, _, _ := strings.Cut(media, "/")
	quoted := func(key string) {
		out = append(append(append(append(append(out, '"'), key...), `":"`...), base64.StdEncoding.AppendEncode(nil, data)...), '"')
	}
	if kind == "image" || kind == "audio" {
		out = append(out, `{"type":"`+kind+`",`...)
		quoted("data")
		return append(rawjson.AppendString(append(out, `,"mimeType":`...), media), '}')
	}
	name := "answer:"
	if resp.Request != nil {
		name += resp.Request.URL.EscapedPath() // a query may have secrets
	}
	out = rawjson.AppendString(append(out, `{"type":"resource","resource":{"uri":`...), name)
	out = append(rawjson.AppendString(append(out, `,"mimeType":`...), media), ',')
	quoted("blob")
	return append(out, `}}`...)
}
