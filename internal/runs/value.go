package runs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/program"
)

// CodeTool is the code of the error that a tool itself answers.
const CodeTool = "TOOL_ERROR"

// Value returns the result of a tool as a program gets it: structuredContent; else the value of its one block,
// or an array of the values of several. A text that is JSON is read. Bytes, such as a picture, are kept by keep,
// and their value names the handle. The error is the ToolError of a result with isError.
func Value(raw json.RawMessage, keep func(mediaType string, data []byte) (handle string, err error)) (json.RawMessage, error) {
	var content, structured, isError []byte
	if err := rawjson.Scan(raw, rawjson.Key("content", &content), rawjson.Key("structuredContent", &structured), rawjson.Key("isError", &isError)); err != nil {
		return nil, &program.ToolError{Code: "UPSTREAM_ERROR", Message: "the server answered with something that is no tool result"}
	}
	if string(isError) == "true" {
		e := &program.ToolError{Code: CodeTool, Message: texts(content)}
		if rawjson.IsObject(structured) {
			e.Details = structured
		}
		return nil, e
	}
	if len(structured) > 0 && string(structured) != "null" {
		return structured, nil
	}
	var values []json.RawMessage
	var problem error
	if rawjson.IsArray(content) {
		err := rawjson.EachElement(content, func(block []byte) bool {
			var value json.RawMessage
			if value, problem = blockValue(block, keep); problem == nil {
				values = append(values, value)
			}
			return problem == nil
		})
		if problem = orElse(problem, err); problem != nil {
			return nil, problem
		}
	}
	switch len(values) {
	case 0:
		return json.RawMessage("null"), nil
	case 1:
		return values[0], nil
	}
	w := rawjson.NewWriter(nil).Array()
	for _, value := range values {
		w.Raw(value)
	}
	return w.EndArray().Bytes(), nil
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// maxToolMessage bounds the message of an error of a tool, in bytes.
const maxToolMessage = 4096

// texts returns the texts of a result.
func texts(content []byte) string {
	var all []string
	_ = rawjson.EachElement(content, func(block []byte) bool { // a fault leaves texts out
		if text := rawjson.Text(rawjson.Get(block, "text")); text != "" {
			all = append(all, text)
		}
		return true
	})
	out := strings.Join(all, "\n")
	if out == "" {
		return "the tool answered an error without a text"
	}
	if len(out) > maxToolMessage {
		out = strings.ToValidUTF8(out[:maxToolMessage], "") + "…"
	}
	return out
}

// blockValue returns the value of a block.
func blockValue(block []byte, keep func(string, []byte) (string, error)) (json.RawMessage, error) {
	switch rawjson.Text(rawjson.Get(block, "type")) {
	case "text":
		return TextValue(rawjson.Get(block, "text")), nil
	case "image", "audio":
		return bytesValue(block, "data", keep)
	case "resource":
		of := rawjson.Get(block, "resource")
		if text := rawjson.Get(of, "text"); text != nil {
			return TextValue(text), nil
		}
		return bytesValue(of, "blob", keep)
	}
	return json.RawMessage(bytes.Clone(block)), nil // a link, or what a later version adds
}

// TextValue returns the value of a JSON string: of the JSON in it, otherwise the string.
func TextValue(quoted json.RawMessage) json.RawMessage {
	text, err := rawjson.Unquote(quoted)
	if err != nil {
		return json.RawMessage("null")
	}
	inner := bytes.TrimSpace(text)
	if rawjson.Valid(inner) == nil {
		return inner
	}
	return quoted
}

// bytesValue keeps bytes and returns {media_type, size, handle}.
func bytesValue(of []byte, key string, keep func(string, []byte) (string, error)) (json.RawMessage, error) {
	encoded, err := rawjson.Unquote(rawjson.Get(of, key))
	if err != nil {
		return json.RawMessage("null"), nil
	}
	data := make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
	n, err := base64.StdEncoding.Decode(data, encoded)
	if err != nil {
		return nil, &program.ToolError{Code: "UPSTREAM_ERROR", Message: "the server answered with bytes that are not in base64"}
	}
	mediaType := rawjson.Text(rawjson.Get(of, "mimeType"))
	handle, err := keep(mediaType, data[:n])
	if err != nil {
		return nil, err
	}
	return rawjson.NewWriter(nil).Object().Key("media_type").String(mediaType).Key("size").Int(int64(n)).Key("handle").String(handle).EndObject().Bytes(), nil
}
