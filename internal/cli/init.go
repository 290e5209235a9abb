package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/machine"
)

// initRun is one run of weir init.
type initRun struct {
	changing
	where   secretFlag
	service bool // install the service without a question
	sandbox string

	a       *process
	m       *setup.Machine
	sources []setup.Source
	plan    *setup.Plan
	offer   *serviceOffer // the service that is to be installed; may be nil
	trial   *gateway.Trial
}

func initCommand(a *process) *cobra.Command {
	r := &initRun{a: a}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Set weir up: find, import, start, connect",
		Long: `Set weir up on this machine. It looks for MCP clients, brings their servers into
weir.yaml, starts and lists them all once, and puts weir in their place in the
clients' files. At last it offers to run the gateway as a service that starts at
login. It asks before each of these steps, and ends with what the change saves. A
server that does not start is kept, with its reason.

All of it is one operation: "weir undo" takes it back.`,
		Example: `  weir init --dry-run
  weir init --yes`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if r.m, err = a.machine(r.config); err != nil {
				return err
			}
			if err = machine.Lasting(r.m.How); err != nil {
				return &failure{exitUsage, err}
			}
			if r.sources, err = look(a, r.m, nil); err != nil {
				return err
			}
			return r.run(cmd.Context())
		},
	}
	r.flags(cmd)
	r.where.flag(cmd)
	cmd.Flags().StringVar(&r.sandbox, "sandbox", "", "auto starts the programs that weir takes over with what they need of this machine, and nothing else; off as you")
	oneOf(cmd, "sandbox", "auto", "off")
	cmd.Flags().BoolVar(&r.service, "service", false, "install the gateway as a service, as weir service install does")
	return cmd
}

// run goes through the steps.
func (r *initRun) run(ctx context.Context) error {
	var err error
	if !r.asJSON {
		r.showFound()
	}
	if r.plan, err = r.m.Import("init", r.sources, clients.Select{Answer: r.answers(r.a, ctx)}); err != nil {
		return err
	}
	if !r.asJSON {
		showPlan(r.a, r.m, r.plan)
	}
	if r.service {
		if r.offer, err = newServiceOffer(ctx, r.a, r.m); err != nil {
			return err
		}
	}
	if r.dryRun || !r.yes && !r.person() {
		return r.onlyPlan()
	}
	if r.plan.Empty() && len(r.choices()) == 0 && r.offer == nil {
		return r.nothing(ctx)
	}
	if ok, err := r.step(ctx, !r.plan.Empty(), "Bring these servers behind weir, and start them to see what they offer?"); err != nil || !ok {
		return err
	}
	if err := r.confine(ctx); err != nil {
		return err
	}
	place, err := r.secretPlace(ctx)
	if err != nil {
		return err
	}
	if err := r.try(ctx); err != nil {
		return err
	}
	chosen, err := r.choose(ctx)
	if err != nil {
		return err
	}
	if err := r.askForService(ctx); err != nil {
		return err
	}
	r.offer.into(r.plan, r.m)
	if err := r.plan.ConnectAll(chosen, false); err != nil {
		return &failure{exitUsage, err}
	}
	if r.plan.Empty() {
		return r.nothing(ctx)
	}
	stop := r.a.spin("writing")
	done, err := r.plan.Apply(ctx, place)
	stop()
	if err != nil {
		return err
	}
	return r.finish(done)
}

// person reports whether there is a person to ask.
func (r *initRun) person() bool {
	_, ok := newQuestions(r.a)
	return ok
}

// step asks a question if it applies. A no ends the command.
func (r *initRun) step(ctx context.Context, applies bool, question string) (bool, error) {
	if !applies {
		return true, nil
	}
	ok, err := r.agree(r.a, ctx, question)
	if err == nil && !ok {
		r.a.note("nothing has changed")
	}
	return ok, err
}

// showFound lists the clients.
func (r *initRun) showFound() {
	t := r.a.stdout
	if len(r.sources) == 0 {
		fmt.Fprintln(t, "No MCP client was found. weir clients --all lists those that weir knows.")
		return
	}
	heading(t, "Found")
	for _, s := range r.sources {
		state := counted(len(s.Servers), "server")
		if s.Wired {
			state = "connected"
		}
		item(t, cyan, "·", s.Client.Name, state)
	}
}

// choices are the files that weir's entry can go to. A client that has only a folder may be long gone
// from the machine, or keep its servers elsewhere.
func (r *initRun) choices() (out []setup.Source) {
	for _, s := range r.sources {
		if s.Exists && s.Client.Proof != clients.Hearsay && !s.Client.Pasted() && !r.plan.Widens(s.Client) && (!s.Wired || len(s.Servers) > 1) {
			out = append(out, s)
		}
	}
	return out
}

// choose asks which clients to connect. Clients of which weir knows only from third parties are left
// to weir connect.
func (r *initRun) choose(ctx context.Context) ([]setup.Source, error) {
	all := r.choices()
	var ids []string
	for _, s := range all {
		if !slices.Contains(ids, s.Client.ID) {
			ids = append(ids, s.Client.ID)
		}
	}
	for _, s := range r.sources {
		switch {
		case r.asJSON:
		case s.Client.Proof == clients.Hearsay:
			item(r.a.stdout, yellow, "!", s.Client.ID, "weir knows it from third parties only; to connect it: weir connect "+s.Client.ID)
		case !s.Exists && !s.Client.Pasted():
			item(r.a.stdout, dim, "i", s.Client.ID, "it has no file for servers yet; to connect it: weir connect "+s.Client.ID)
		}
	}
	if r.yes || len(ids) == 0 {
		return all, nil
	}
	words, err := r.pick(ctx, "Connect "+strings.Join(ids, ", ")+"?", ids, true)
	return slices.DeleteFunc(all, func(s setup.Source) bool { return !slices.Contains(words, s.Client.ID) }), err
}

// programs are the names of the servers that weir would start, and that say nothing of a sandbox.
func (r *initRun) programs() (names []string) {
	for _, s := range r.plan.Import.Servers {
		if s.Server.Command != "" && s.Server.Sandbox == "" {
			names = append(names, s.Name)
		}
	}
	return names
}

// confine asks which of the servers get a sandbox. What does not start in it is seen when the servers are tried.
func (r *initRun) confine(ctx context.Context) error {
	names := r.programs()
	if way, open := sandboxesOf(r.a.environ()); r.sandbox == "" && !r.yes && len(names) > 0 && way != "none" {
		t := r.a.stdout
		heading(t, "Sandboxes by "+way)
		item(t, dim, "i", "closed", "your home with ~/.ssh and ~/.aws, other programs, the sockets of Docker, of SSH and of the keyring")
		item(t, dim, "i", "left", "the system, its runner, the folders that its entry names, its own secrets, the network; weir sandbox learn NAME finds more")
		for _, gap := range open {
			item(t, yellow, "!", "open", gap)
		}
		chosen, err := r.pick(ctx, "Confine "+strings.Join(names, ", ")+"?", names, false)
		if err != nil {
			return err
		}
		if names = chosen; len(names) > 0 {
			r.sandbox = "auto"
		}
	}
	for i, s := range r.plan.Import.Servers {
		if slices.Contains(names, s.Name) {
			r.plan.Import.Servers[i].Server.Sandbox = r.sandbox
		}
	}
	return nil
}

// pick asks a question about names, of which a person may choose some. standard is the answer of an empty line.
func (r *initRun) pick(ctx context.Context, question string, names []string, standard bool) ([]string, error) {
	q, _ := newQuestions(r.a)
	hint := " [Y/n/names]"
	if !standard {
		hint = " [y/N/names]"
	}
	for {
		answer, err := q.line(ctx, r.a.stderr.paint(bold, question)+hint, false)
		if err != nil {
			return nil, fmt.Errorf("nothing has changed: %w", err)
		}
		words := strings.FieldsFunc(answer, func(c rune) bool { return c == ' ' || c == ',' })
		one := ""
		if len(words) == 1 {
			one = strings.ToLower(words[0])
		}
		switch {
		case one == "y", one == "yes", len(words) == 0 && standard:
			return names, nil
		case one == "n", one == "no", len(words) == 0:
			return nil, nil
		}
		at := slices.IndexFunc(words, func(w string) bool { return !slices.Contains(names, w) })
		if at < 0 {
			return words, nil
		}
		fmt.Fprintf(r.a.stderr, "%q is none of them.\n", words[at])
	}
}

// secretPlace asks where the secrets go, if there are any.
func (r *initRun) secretPlace(ctx context.Context) (setup.Place, error) {
	if r.where != "" || r.yes || len(r.plan.Import.Secrets) == 0 {
		return r.where.place()
	}
	q, _ := newQuestions(r.a)
	for {
		answer, err := q.line(ctx, r.a.stderr.paint(bold, "Move the "+counted(len(r.plan.Import.Secrets), "secret")+" to the store, to env, or keep them inline?")+" [store]", false)
		if err != nil {
			return "", fmt.Errorf("nothing has changed: %w", err)
		}
		r.where = secretFlag(strings.ToLower(strings.TrimSpace(answer)))
		if place, err := r.where.place(); err == nil {
			return place, nil
		}
		fmt.Fprintln(r.a.stderr, "It is one of store, env and inline.")
	}
}

// try starts all servers once and shows how they are.
func (r *initRun) try(ctx context.Context) error {
	var err error
	if r.trial, err = tryPlan(r.a, ctx, r.m, r.plan, nil); err != nil || r.asJSON {
		return err
	}
	heading(r.a.stdout, "Started")
	for _, s := range r.trial.Servers {
		switch reason := trialFault(s); {
		case reason != "":
			item(r.a.stdout, red, "✗", s.Name, reason)
		case s.State == "disabled" || s.State == "left_out":
			item(r.a.stdout, dim, "-", s.Name, s.State)
		default:
			item(r.a.stdout, green, "✓", s.Name, trialText(s))
		}
	}
	return nil
}

// triedJSON is a server that was started, for programs.
type triedJSON struct {
	Name   string `json:"name"`
	Tools  int    `json:"tools"`
	Reason string `json:"reason,omitempty"`  // why it cannot be used
	SignIn bool   `json:"sign_in,omitempty"` // it wants a person to sign in first: weir login NAME
}

// initJSON is the outcome of weir init, for programs.
type initJSON struct {
	planJSON
	Started []triedJSON `json:"started"`
	Menu    *menuJSON   `json:"menu,omitempty"`
	Service string      `json:"service,omitempty"` // the URL of the service that is installed
}

// menuJSON counts the tokens of definitions of tools.
type menuJSON struct {
	Before int `json:"before"`
	After  int `json:"after"`
}

func (r *initRun) json(done setup.Result, dry bool) initJSON {
	out := initJSON{planJSON: asPlanJSON(r.m, r.plan), Started: []triedJSON{}}
	out.DryRun, out.Done = dry, done.Record.N
	out.add(done)
	if r.trial != nil {
		for _, s := range r.trial.Servers {
			out.Started = append(out.Started, triedJSON{s.Name, s.Tools, trialFault(s), s.State == "sign_in"})
		}
		out.Menu = &menuJSON{r.trial.Before, r.trial.After}
	}
	if r.offer != nil {
		out.Service = r.offer.url
	}
	return out
}

// onlyPlan ends a run that changes nothing. The plan includes the clients' files.
func (r *initRun) onlyPlan() error {
	r.offer.into(r.plan, r.m)
	if err := r.plan.ConnectAll(r.choices(), false); err != nil {
		return &failure{exitUsage, err}
	}
	if r.asJSON {
		if err := printJSON(r.a.stdout, r.json(setup.Result{}, true)); err != nil {
			return err
		}
	} else if len(r.plan.Files) > 0 {
		heading(r.a.stdout, "Files")
		for _, f := range r.plan.Files {
			showFile(r.a, r.plan.Kind, f)
		}
		r.offer.show(r.a)
	}
	if r.dryRun {
		return nil
	}
	return errNotAsked()
}

// nothing ends a run on a machine that needs no change.
func (r *initRun) nothing(ctx context.Context) error {
	if r.trial == nil && len(r.sources) > 0 {
		if err := r.try(ctx); err != nil {
			return err
		}
	}
	if r.asJSON {
		return printJSON(r.a.stdout, r.json(setup.Result{}, false))
	}
	r.showMenu()
	_, err := fmt.Fprintln(r.a.stdout, "There is nothing to change. To add a server: weir add NAME -- COMMAND")
	return err
}

// finish prints the changes, the tokens that they save and the steps that are left.
func (r *initRun) finish(done setup.Result) error {
	if r.asJSON {
		return printJSON(r.a.stdout, r.json(done, false))
	}
	heading(r.a.stdout, "Changed")
	if len(r.plan.Import.Servers) > 0 {
		fmt.Fprintln(r.a.stdout, "  "+r.a.stdout.clean(middle(r.a.tilde(r.m.Config), r.a.stdout.width-2)))
	}
	for _, f := range r.plan.Files {
		showFile(r.a, r.plan.Kind, f)
	}
	r.offer.show(r.a)
	r.showMenu()
	return showDone(r.a.stdout, r.plan, done)
}

// showMenu shows how many tokens the definitions of tools cost, before and now.
func (r *initRun) showMenu() {
	if r.trial == nil || r.trial.Before == 0 {
		return
	}
	t := r.a.stdout
	if r.trial.After >= r.trial.Before {
		fmt.Fprintf(t, "%s %s tokens; with so few tools, weir lists them all\n", t.paint(bold, "menu"), thousands(r.trial.After))
		return
	}
	fmt.Fprintf(t, "%s %s → %s tokens\n", t.paint(bold, "menu"), thousands(r.trial.Before), t.paint(green, thousands(r.trial.After)))
}
