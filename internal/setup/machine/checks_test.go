package machine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/setup/doctor"
	"github.com/weir-mcp/weir/internal/web/api"
)

// TestMendOne: the page mends what is still as it was seen, whether or not its caller stays, and tells a
// change of which a later step failed.
func TestMendOne(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	disk := errors.New("the disk is full")
	finding := func(id string, n int, err error) doctor.Finding {
		return doctor.Finding{ID: id, Thing: "f", Repair: &doctor.Repair{Show: "put it back", Do: func(ctx context.Context) (int, error) {
			leave()
			return n, errors.Join(err, ctx.Err())
		}}}
	}
	list := []doctor.Finding{{ID: "made", Thing: "f"}, finding("made", 7, nil), finding("half", 8, disk), finding("not", 0, disk)}
	ask := func(id, mends string) (api.Mended, error) {
		ctx, leave = context.WithCancel(t.Context())
		defer leave()
		return mendOne(ctx, list, api.Mending{ID: id, Thing: "f", Mends: mends})
	}
	if got, err := ask("made", "put it back"); err != nil || got != (api.Mended{Mends: "put it back", Operation: 7}) {
		t.Errorf("made: %+v, %v", got, err)
	}
	if got, err := ask("half", "put it back"); err != nil || got.Operation != 8 || got.Failed != "the disk is full" {
		t.Errorf("made in part: %+v, %v", got, err)
	}
	if _, err := ask("not", "put it back"); !errors.Is(err, disk) {
		t.Errorf("not made: %v", err)
	}
	if _, err := ask("made", "something else"); err == nil || !strings.Contains(err.Error(), "any more") {
		t.Errorf("another plan: %v", err)
	}
}
