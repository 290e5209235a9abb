package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/mcp"
)

// subscribed is a Server that subscribes to anything.
type subscribed struct{ Server }

func (subscribed) SubscribeResource(context.Context, string, func(json.RawMessage)) (func(), error) {
	return func() {}, nil
}

// A session and a subscription have bounds on the number of resources, and on the bytes of their URIs.
func TestBoundsOfResources(t *testing.T) {
	for _, test := range []struct {
		name string
		uri  func(i int) string
		most int
		why  string
	}{
		{"short", func(i int) string { return fmt.Sprintf("a:%d", i) }, MaxResources, "1024 resources"},
		{"long", func(i int) string { return fmt.Sprintf("a:%d%s", i, strings.Repeat("x", 8<<10-8)) }, 32, "may have 262144"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var held resources
			var uris []string
			for i := range test.most {
				uris = append(uris, test.uri(i))
				if err := held.subscribe(t.Context(), subscribed{}, test.uri(i), nil); err != nil {
					t.Fatalf("%d: %v", i, err)
				}
			}
			err := held.subscribe(t.Context(), subscribed{}, test.uri(test.most), nil)
			if kind, _ := mcp.KindOf(err); kind != mcp.KindOverloaded || !strings.Contains(err.Error(), test.why) {
				t.Errorf("%v", err)
			}
			held.unsubscribe(test.uri(0))
			if err := held.subscribe(t.Context(), subscribed{}, test.uri(test.most), nil); err != nil {
				t.Errorf("after one is gone: %v", err)
			}
			wish := func() error {
				list, err := json.Marshal(uris)
				if err != nil {
					t.Fatal(err)
				}
				_, err = ReadWish(json.RawMessage(`{"notifications":{"resourceSubscriptions":`+string(list)+`}}`), json.RawMessage(`{"resources":{"subscribe":true}}`))
				return err
			}
			if err := wish(); err != nil {
				t.Error(err)
			}
			uris = append(uris, test.uri(test.most))
			if kind, _ := mcp.KindOf(wish()); kind != mcp.KindInvalidParams {
				t.Errorf("one more: %v", wish())
			}
		})
	}
}
