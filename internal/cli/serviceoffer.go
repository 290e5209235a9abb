package cli

import (
	"context"
	"strings"

	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/service"
)

// A serviceOffer is the service as weir init would install it. A nil one stands for no service; its
// methods may be called.
type serviceOffer struct {
	a        *process
	service  *service.Service
	settings service.Settings
	before   string
	url      string
}

// newServiceOffer returns the service for a machine's configuration. The error says why this user
// can have none.
func newServiceOffer(ctx context.Context, a *process, m *setup.Machine) (*serviceOffer, error) {
	c := &serviceChange{a: a, m: m}
	var err error
	if c.service, err = a.service(); err != nil {
		return nil, err
	}
	if err := c.service.Available(ctx); err != nil {
		return nil, &failure{exitUnavailable, err}
	}
	o := &serviceOffer{a: a, service: c.service}
	before, _ := c.service.Installed() // settings that cannot be read count as no service
	o.before = serviceStep(before)
	if o.settings, err = c.settings(ctx); err != nil {
		return nil, err
	}
	o.settings.Config = m.Config
	if o.url = serviceURL(o.settings); o.url == "" && quietConfig(m.Config) == nil {
		o.url = defaultURL // of a configuration that does not exist yet
	}
	return o, nil
}

// askForService asks whether the gateway is to be a service, unless that is decided or this user
// cannot have one.
func (r *initRun) askForService(ctx context.Context) error {
	if r.offer != nil || r.yes {
		return nil
	}
	if s, err := r.a.service(); err != nil {
		return nil
	} else if now, err := s.Installed(); now != nil || err != nil {
		return nil
	}
	offer, err := newServiceOffer(ctx, r.a, r.m)
	if err != nil {
		return nil // weir attach starts the gateway when a client needs it
	}
	q, _ := newQuestions(r.a)
	answer, err := q.line(ctx, r.a.stderr.paint(bold, "Run the gateway as a service that starts at login?")+" [y/N]", false)
	if answer = strings.ToLower(strings.TrimSpace(answer)); err == nil && (answer == "y" || answer == "yes") {
		r.offer = offer
	}
	return err
}

// into adds the service to a plan. Clients that speak HTTP get its URL, if each of
// them can use it.
func (o *serviceOffer) into(p *setup.Plan, m *setup.Machine) {
	if o == nil {
		return
	}
	if quietConfig(m.Config) == nil || opensFreely(m.Config) {
		m.How.Known, m.How.URL = append(m.How.Known, o.url), o.url
	}
	p.Service = &setup.ServiceChange{Before: o.before, Install: func(ctx context.Context) error {
		if err := stopOther(ctx, gatewayBesideService(ctx, o.a.lookupEnv, o.service, o.settings.Config)); err != nil {
			return err
		}
		return o.service.Install(ctx, o.settings)
	}}
}

// show shows the service as a part of a plan.
func (o *serviceOffer) show(a *process) {
	if o == nil {
		return
	}
	heading(a.stdout, "Service")
	item(a.stdout, green, "+", o.url, o.service.Manager()+", starts at login")
}
