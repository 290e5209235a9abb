package bridge

import (
	"context"
	"encoding/json"
	"sync"
)

// resources are the subscriptions of one legacy session to resources of one server. The zero value
// has none. All methods are safe for concurrent use.
type resources struct {
	order sync.Mutex // held while a subscription starts or ends; before mu

	mu    sync.Mutex // guards below
	ended bool
	stops map[string]func() // by URI
}

// subscribe calls fn for each update of a resource until unsubscribe or end. A second subscription
// to the same resource changes nothing. See CheckRoom for the bounds of
// a session.
func (s *resources) subscribe(ctx context.Context, server Server, uri string, fn func(params json.RawMessage)) error {
	s.order.Lock()
	defer s.order.Unlock()
	s.mu.Lock()
	_, double := s.stops[uri]
	full := CheckRoom(s.stops, uri)
	s.mu.Unlock()
	switch {
	case double:
		return nil
	case full != nil:
		return full
	}
	stop, err := server.SubscribeResource(ctx, uri, fn)
	if err != nil {
		return err
	}
	s.mu.Lock()
	ended := s.ended
	if !ended {
		if s.stops == nil {
			s.stops = map[string]func(){}
		}
		s.stops[uri] = stop
	}
	s.mu.Unlock()
	if ended {
		stop()
	}
	return nil
}

// unsubscribe ends the subscription to a resource, if there is one.
func (s *resources) unsubscribe(uri string) {
	s.order.Lock()
	defer s.order.Unlock()
	s.mu.Lock()
	stop := s.stops[uri]
	delete(s.stops, uri)
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// end ends all subscriptions. Later ones end at once.
func (s *resources) end() {
	s.mu.Lock()
	stops := s.stops
	s.ended, s.stops = true, nil
	s.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}
