package access

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/access/jwk"
	"github.com/weir-mcp/weir/internal/limit/bounded"
)

// How long answers about opaque tokens are kept (spec/identity §5).
const (
	activeTime   = 30 * time.Second
	inactiveTime = 10 * time.Second
)

// maxQuestions bounds the tokens that are asked about at one time. Strangers can make up any number
// of them.
const maxQuestions = 256

// Introspection is an endpoint of RFC 7662.
type Introspection struct {
	URL string
	// Prefix is how the issuer's tokens start; "" fits all tokens.
	Prefix                 string
	ClientID, ClientSecret string
}

// introspected are the answers about opaque tokens, and the questions that are being asked.
type introspected struct {
	o       Options
	ctx     context.Context // ends with the Authenticator
	answers *bounded.Map[[sha256.Size]byte, opinion]

	mu    sync.Mutex // guards below
	asked map[[sha256.Size]byte]*question
}

// opinion is an answer about one token.
type opinion struct {
	v     *verified // nil: the issuer does not know the token
	why   string    // of a token that the issuer knows and that is not accepted
	until time.Time
}

// question is asked once for all requests with the same token.
type question struct {
	done   chan struct{}
	answer opinion
	err    error
}

func newIntrospected(o Options, ctx context.Context) *introspected {
	return &introspected{o: o, ctx: ctx, asked: map[[sha256.Size]byte]*question{},
		answers: bounded.New(bounded.Options[[sha256.Size]byte, opinion]{MaxCount: maxCached, TTL: activeTime, Now: o.Now})}
}

// issuerOf returns the issuer that is asked about an opaque token: of those whose prefix fits, the one
// with the longest; nil if none fits. Only that one sees the token.
func (s *state) issuerOf(bearer string) (of *issuer) {
	for _, i := range s.asked {
		prefix := i.Introspection.Prefix
		if strings.HasPrefix(bearer, prefix) && (of == nil || len(prefix) > len(of.Introspection.Prefix)) {
			of = i
		}
	}
	return of
}

// introspect asks an issuer about an opaque token.
func (s *state) introspect(ctx context.Context, from *issuer, bearer string, sum [sha256.Size]byte) (*verified, error) {
	in := s.answers
	answer, ok := in.answers.Get(sum)
	if !ok || !in.o.Now().Before(answer.until) {
		var err error
		if answer, err = s.ask(ctx, from, bearer, sum); err != nil {
			return nil, err
		}
	}
	switch {
	case answer.v != nil:
		return answer.v, nil
	case answer.why != "":
		return nil, unauthorized("the bearer token is not accepted: %s", answer.why)
	}
	return nil, unknown()
}

// ask asks the issuer, or joins a question about the same token. A request that goes away does not
// take the answer from the others.
func (s *state) ask(ctx context.Context, from *issuer, bearer string, sum [sha256.Size]byte) (opinion, error) {
	in := s.answers
	in.mu.Lock()
	q := in.asked[sum]
	if q == nil && len(in.asked) >= maxQuestions {
		in.mu.Unlock()
		return opinion{}, unavailable(from.Name, time.Second)
	}
	if q == nil {
		q = &question{done: make(chan struct{})}
		in.asked[sum] = q
		in.mu.Unlock()
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		defer context.AfterFunc(in.ctx, cancel)()
		if q.answer, q.err = s.askIssuer(asking, from, bearer); q.err == nil {
			in.answers.Put(sum, q.answer, 0)
		}
		in.mu.Lock()
		delete(in.asked, sum)
		in.mu.Unlock()
		close(q.done)
		return q.answer, q.err
	}
	in.mu.Unlock()
	select {
	case <-q.done:
		return q.answer, q.err
	case <-ctx.Done():
		return opinion{}, ctx.Err()
	}
}

// askIssuer asks an issuer. If it cannot be asked, the token may be good.
func (s *state) askIssuer(ctx context.Context, from *issuer, bearer string) (opinion, error) {
	in := s.answers
	claims, err := from.post(ctx, bearer)
	if err != nil {
		in.o.Logger.Warn("an issuer cannot be asked about a token", "issuer", from.Name, "err", err)
		return opinion{}, unavailable(from.Name, time.Second)
	}
	now := in.o.Now()
	if claims["active"] != true {
		return opinion{until: now.Add(inactiveTime)}, nil
	}
	iss, named := claims["iss"]
	if named && iss != from.Issuer.Issuer {
		return opinion{why: "the introspection endpoint of auth.issuers." + from.Name + " says that it is of another issuer", until: now.Add(inactiveTime)}, nil
	}
	v, err := s.read(from, claims, now, false)
	if err != nil {
		return opinion{why: err.Error(), until: now.Add(inactiveTime)}, nil
	}
	v.id.Bearer, v.id.Revocable = secret(bearer), true
	until := now.Add(activeTime)
	if end := v.id.Expires; !end.IsZero() && end.Before(until) {
		until = end
	}
	return opinion{v: v, until: until}, nil
}

// post asks the endpoint of an issuer.
func (i *issuer) post(ctx context.Context, bearer string) (map[string]any, error) {
	at := i.Introspection
	form := url.Values{"token": {bearer}, "token_type_hint": {"access_token"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if at.ClientID != "" {
		r.SetBasicAuth(url.QueryEscape(at.ClientID), url.QueryEscape(at.ClientSecret)) // RFC 6749 §2.3.1
	}
	raw, _, err := i.asks.do(r)
	if err != nil {
		return nil, err
	}
	return jwk.DecodeObject(raw)
}
