package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
)

// measure runs the task in every mode and prints the table.
func measure(ctx context.Context, s *stage, out io.Writer) error {
	fmt.Fprintf(out, "Context cost in tokens (cl100k_base), %s\n", s.title)
	for i, st := range s.steps {
		fmt.Fprintf(out, "step %d: %s of %s, found by %q\n", i+1, st.Tool, st.Server, st.Query)
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "mode\tdefinitions\twith one browse\tcontext after the task\tread in all turns\tturns\t")
	var native cost
	for i, m := range modes {
		c, err := m.run(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if i == 0 {
			native = c
		}
		browse := "-"
		if c.browse > 0 {
			browse = share(c.browse, native.definitions)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t\n", m.name, share(c.definitions, native.definitions), browse, share(c.context, native.context), share(c.read, native.read), c.turns)
	}
	return w.Flush()
}

// share is a number and its part of the native one.
func share(n, native int) string {
	if n == native {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d (%.3g %%)", n, 100*float64(n)/float64(native))
}
