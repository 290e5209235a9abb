package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// Times of the device flow, where an authorization server says none or strange ones.
const (
	devicePause    = 5 * time.Second
	maxDevicePause = time.Minute
	maxDeviceTime  = 30 * time.Minute
)

// A Code is the code that a person enters at another device.
type Code struct {
	User     string        // the code to enter
	URL      string        // where to enter it
	Complete string        // the same with the code in it, or ""
	Life     time.Duration // until the code ends
}

// Device signs a principal in by another device (RFC 8628). It calls show once, and then waits until
// the person has agreed, refused, or let the code end.
func (c *Client) Device(ctx context.Context, s *Server, principal string, show func(Code) error) error {
	device := *s
	device.Flow = FlowDevice
	s = &device
	f, r, err := c.discover(ctx, s, s.id(principal))
	if err != nil {
		return err
	}
	cred, err := c.clientFor(ctx, s, f, r, loopbackCallback)
	if err != nil {
		return err
	}
	had, err := c.of(ctx, s, s.id(principal))
	if err != nil {
		had = nil // a record that cannot be read is replaced
	}
	g, scopes := newGrant(s, f, cred, FlowDevice), wanted(s, f, had)
	g.inherit(had)
	form := url.Values{}
	for name, value := range s.Params {
		form.Set(name, value)
	}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	if f.resource != "" {
		form.Set("resource", f.resource)
	}
	header, err := c.show(s, cred, f.Issuer, form)
	if err != nil {
		return err
	}
	var begun struct {
		Device   string  `json:"device_code"`
		User     string  `json:"user_code"`
		URL      string  `json:"verification_uri"`
		Complete string  `json:"verification_uri_complete"`
		Expires  seconds `json:"expires_in"`
		Interval seconds `json:"interval"`
	}
	if err := r.post(ctx, f.Device, form, header, &begun, string(s.ClientSecret), cred.Secret); err != nil {
		return fmt.Errorf("the authorization server %s gave no device code for %q: %w", f.Issuer, s.Name, err)
	}
	if begun.Device == "" || begun.User == "" {
		return fmt.Errorf("the authorization server %s gave a device code without a code for a person", f.Issuer)
	}
	for name, page := range map[string]string{"verification_uri": begun.URL, "verification_uri_complete": begun.Complete} {
		if page == "" && name != "verification_uri" {
			continue
		}
		if err := r.checkPage(page); err != nil {
			return fmt.Errorf("the authorization server %s gave a device code; its %s: %w", f.Issuer, name, err)
		}
	}
	life := min(time.Duration(float64(begun.Expires)*float64(time.Second)), maxDeviceTime)
	if life <= 0 {
		life = maxDeviceTime
	}
	if err := show(Code{User: shown(begun.User, 40, nil), URL: begun.URL, Complete: begun.Complete, Life: life}); err != nil {
		return err
	}
	pause := min(time.Duration(float64(begun.Interval)*float64(time.Second)), maxDevicePause)
	if pause <= 0 {
		pause = devicePause
	}
	if g, err = c.poll(ctx, s, r, g, begun.Device, scopes, pause, life); err != nil {
		return err
	}
	return c.keep(ctx, s.id(principal), g)
}

// poll asks for the token of a device code until the person has decided.
func (c *Client) poll(ctx context.Context, s *Server, r *reach, g *grant, code string, scopes []string, pause, life time.Duration) (*grant, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, life, fmt.Errorf("the code for %q has ended before it was entered: begin again", s.Name))
	defer cancel()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
		next, err := c.ask(ctx, s, r, g, url.Values{"grant_type": {deviceGrant}, "device_code": {code}}, scopes)
		var told *failure
		switch {
		case err == nil:
			return next, nil
		case isCode(err, "authorization_pending"):
		case isCode(err, "slow_down"):
			pause += 5 * time.Second
		case isCode(err, "access_denied"):
			return nil, fmt.Errorf("the sign-in at %q was refused", s.Name)
		case isCode(err, "expired_token"):
			return nil, fmt.Errorf("the code for %q has ended before it was entered: begin again", s.Name)
		case errors.As(err, &told) && told.status < 500:
			return nil, fmt.Errorf("the authorization server %s gave no token for %q: %w", g.Issuer, s.Name, err)
		default:
			pause = min(2*pause, maxDevicePause) // it cannot be reached; RFC 8628 §3.5
		}
		timer.Reset(pause)
	}
}
