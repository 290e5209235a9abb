package artifact

import (
	"context"
	"fmt"
	"strings"
)

// Place is a store as the calls at one endpoint of a gateway see it, such as a profile. Bounds are
// per principal. All methods may be called concurrently.
type Place struct {
	s    *Local
	name string
	mark string
}

// At returns the store at a place. Artifacts of another place are unknown there. The place "" has
// the artifacts of all places, and Local's own methods work at this place.
func (s *Local) At(place string) Place { return Place{s: s, name: place} }

// Marked returns the place for artifacts with a mark.
func (p Place) Marked(mark string) Place {
	p.mark = mark
	return p
}

// Put stores data as Local.Put does. The same bytes have another handle at each place.
func (p Place) Put(ctx context.Context, principal, mediaType, label string, data []byte) (Artifact, error) {
	return p.s.put(ctx, owner{principal, p.name}, p.mark, mediaType, label, data, nil)
}

// PutDigested is Put for data whose Digest has started.
func (p Place) PutDigested(ctx context.Context, principal, mediaType, label string, data []byte, digest *Digest) (Artifact, error) {
	return p.s.put(ctx, owner{principal, p.name}, p.mark, mediaType, label, data, digest)
}

// Open opens an artifact as Local.Open does.
func (p Place) Open(ctx context.Context, principal, handle string) (*Lease, error) {
	return p.s.open(ctx, owner{principal, p.name}, handle)
}

// IsHandle reports whether a text has the form of a handle.
func IsHandle(text string) bool { return strings.HasPrefix(text, handlePrefix) }

// owner says whose an artifact is: a principal's, at a place.
type owner struct{ principal, place string }

// opens reports whether the owner may open an artifact that was stored at a place.
func (o owner) opens(place string) bool { return o.place == "" || o.place == place }

// unknown returns the error for a handle that the owner has not.
func (o owner) unknown(handle string) error {
	e := &Error{Kind: ErrUnknown, Handle: handle,
		Detail: fmt.Sprintf("no artifact has the handle %q here; a handle works only for the principal whose call made it", handle)}
	if o.place != "" {
		e.Detail += fmt.Sprintf(", and at %s only if it was made there", o.place)
	}
	e.Detail += "; run the tool again to get a new one"
	return e
}
