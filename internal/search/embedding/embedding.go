package embedding

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/weir-mcp/weir/internal/search"
)

const (
	maxAnswer  = 64 << 20 // bytes of an answer
	maxMessage = 200      // characters of an endpoint's error that are passed on
)

// Config says whom to ask. URL and Model are required.
type Config struct {
	// URL is the endpoint, with or without /embeddings at its end: https://host/v1.
	URL string
	// Model is the model's name at that endpoint.
	Model string
	// Key is sent as a bearer token; empty sends none. It is in no error.
	Key string
	// Dimensions asks for shorter vectors where the model can; 0 leaves that to the model.
	Dimensions int
	// Timeout bounds one call, in addition to the context; 0 means 20 seconds.
	Timeout time.Duration
	// HTTP makes the calls; nil means http.DefaultClient.
	HTTP *http.Client
}

// Client is an Embedder over HTTP. Its methods may run concurrently.
type Client struct {
	config Config
	url    string
}

var _ search.Embedder = (*Client)(nil)

// New checks the configuration. It makes no call.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the embedding endpoint's URL %q is not one: write it like https://host/v1", redact(c.URL, c.Key))
	}
	if c.Model == "" {
		return nil, fmt.Errorf("the embedding endpoint %s needs the name of a model", u.Redacted())
	}
	if !strings.HasSuffix(u.Path, "/embeddings") {
		u = u.JoinPath("embeddings")
	}
	if c.Timeout == 0 {
		c.Timeout = 20 * time.Second
	}
	if c.HTTP == nil {
		c.HTTP = http.DefaultClient
	}
	return &Client{config: c, url: u.String()}, nil
}

type request struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Format     string   `json:"encoding_format"`
	Dimensions int      `json:"dimensions,omitempty"`
}

type answer struct {
	Data []struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	} `json:"data"`
	Error json.RawMessage `json:"error"`
}

// Embed returns one vector per text, in order. It makes one call and does not retry.
func (c *Client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	body, err := json.Marshal(request{c.config.Model, texts, "float", c.config.Dimensions})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.config.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.config.Key)
	}
	response, err := c.config.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	raw, err := read(response.Body)
	if err != nil {
		return nil, fmt.Errorf("answer of the embedding endpoint: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the embedding endpoint answered %s: %s", response.Status, redact(string(raw), c.config.Key))
	}
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, fmt.Errorf("answer of the embedding endpoint: %w", err)
	}
	if len(a.Error) > 0 && string(a.Error) != "null" {
		return nil, fmt.Errorf("the embedding endpoint answered an error: %s", redact(string(a.Error), c.config.Key))
	}
	return a.order(len(texts))
}

// order puts the vectors where their index says; every text must have exactly one.
func (a answer) order(n int) ([][]float32, error) {
	out := make([][]float32, n)
	for _, d := range a.Data {
		if d.Index < 0 || d.Index >= n || out[d.Index] != nil || len(d.Embedding) == 0 {
			return nil, fmt.Errorf("the embedding endpoint answered a wrong vector for text %d of %d", d.Index, n)
		}
		out[d.Index] = d.Embedding
	}
	if len(a.Data) != n {
		return nil, fmt.Errorf("the embedding endpoint answered %d vectors for %d texts", len(a.Data), n)
	}
	return out, nil
}

func read(body io.ReadCloser) (_ []byte, err error) {
	defer func() { err = errors.Join(err, body.Close()) }()
	raw, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err == nil && len(raw) > maxAnswer {
		err = fmt.Errorf("longer than %d bytes", maxAnswer)
	}
	return raw, err
}

// redact brings foreign text to one short line without the key.
func redact(s, key string) string {
	if key != "" {
		s = strings.ReplaceAll(s, key, "[key]")
	}
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if r := []rune(s); len(r) > maxMessage {
		s = string(r[:maxMessage]) + "…"
	}
	return s
}
