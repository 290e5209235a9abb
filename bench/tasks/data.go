package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// The people, customers, suppliers and services of the tasks. Nothing here depends on chance.
var (
	managers  = strings.Fields("Anna Bela Carl Dora Emil")
	customers = strings.Fields("Adler Birke Clement Dietz Ewers Falk Gruber Hansen Imhof Jansen Kessler Lorenz Maurer Neumann Osterhaus Petersen Quandt Richter Seidel Thoma Ulrich Vogel Weber Yilmaz Zander")
	suppliers = strings.Fields("Brandt Cordes Dorn Eilers Frank Gerber Holm Iversen")
	services  = strings.Fields("auth billing cart checkout gateway inventory mail payments search shipping")
	areas     = strings.Fields("auth cart mail search")
	offices   = []struct{ city, zone string }{
		{"Berlin", "Europe/Berlin"}, {"Bogota", "America/Bogota"}, {"Lagos", "Africa/Lagos"}, {"Mumbai", "Asia/Kolkata"},
		{"Seattle", "America/Los_Angeles"}, {"Sydney", "Australia/Sydney"}, {"Tokyo", "Asia/Tokyo"}, {"Toronto", "America/Toronto"},
	}
)

// writeFiles writes the files of the tasks into a folder.
func writeFiles(root string) error {
	all := map[string]string{
		"absences.csv": "name,from,to,reason\nBela,2026-11-20,2026-12-04,holiday\nFritz,2026-11-02,2026-11-06,training\nEmil,2026-11-24,2026-12-18,leave\n",
		"offices.csv":  "city,timezone\n", "memory.json": graph(), "letters/.keep": "", "archive/.keep": "",
	}
	for _, o := range offices {
		all["offices.csv"] += o.city + "," + o.zone + "\n"
	}
	for i, s := range suppliers {
		all[fmt.Sprintf("inbox/scan-%03d.txt", 11*i+4)] = fmt.Sprintf("INVOICE\nNumber: 2026-%d\nSupplier: %s\nDate: 2026-11-%02d\nNet: %d.00 EUR\nThe goods were delivered on pallets and remain the supplier's until they are paid.\n", 400+i*7, s, 3+i*2, 120+i*45)
	}
	for i, s := range services {
		timeout := 3000
		if s == "inventory" {
			timeout = 2500 // the odd one, at which a loop breaks
		}
		all["config/"+s+".json"] = fmt.Sprintf("{\n  \"service\": %q,\n  \"port\": %d,\n  \"timeout_ms\": %d,\n  \"retries\": 2,\n  \"log_level\": \"info\"\n}\n", s, 7000+i, timeout)
		all[fmt.Sprintf("docs/%s/README.md", s)] = manual(s, i)
	}
	for name, text := range all {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manual is the handbook of a service. Some have work that is left.
func manual(service string, i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nThe service %s answers on port %d.\n", service, service, 7000+i)
	for n, part := range []string{"Start", "Health", "Alarms", "Backup"} {
		fmt.Fprintf(&b, "\n## %s\n\nOperators of %s read this part before they change anything, and write down afterwards what they have changed and why.\n", part, service)
		if (i+n)%4 == 1 {
			fmt.Fprintf(&b, "TODO(%s): describe the %s of %s.\n", strings.ToLower(managers[i%len(managers)]), strings.ToLower(part), service)
		}
	}
	return b.String()
}

// graph is the file of the memory server: who manages which customer. The last five customers are
// not in it.
func graph() string {
	var b strings.Builder
	for _, m := range managers {
		fmt.Fprintf(&b, `{"type":"entity","name":%q,"entityType":"person","observations":["account manager","speaks German and English"]}`+"\n", m)
	}
	for i, c := range customers[:len(customers)-5] {
		fmt.Fprintf(&b, `{"type":"entity","name":%q,"entityType":"customer","observations":["customer since 20%02d","prefers contact by mail"]}`+"\n", c, 10+i%14)
		fmt.Fprintf(&b, `{"type":"relation","from":%q,"to":%q,"relationType":"manages"}`+"\n", managers[i%len(managers)], c)
	}
	return b.String()
}

// fillShop makes the tables of the shop, by the tools of the server itself.
func fillShop(ctx context.Context, shop *mcp.Conn) error {
	var c, o []string
	for i, name := range customers {
		c = append(c, fmt.Sprintf("(%d,'%s','%s@example.com','%s','%s')", i+1, name, strings.ToLower(name), []string{"DE", "AT", "CH"}[i%3], managers[i%len(managers)]))
	}
	for i := range 240 {
		status := []string{"paid", "paid", "open", "paid", "paid"}[i%5]
		if i%20 == 7 {
			status = "late"
		}
		o = append(o, fmt.Sprintf("(%d,%d,'%s',%d.50,'2026-%02d-%02d')", 5001+i, 1+(i*7)%len(customers), status, 40+(i*37)%400, 8+i/80, 1+i%28))
	}
	for _, q := range []struct{ tool, sql string }{
		{"create_table", "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT, country TEXT, manager TEXT)"},
		{"create_table", "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, status TEXT, total REAL, due TEXT)"},
		{"write_query", "INSERT INTO customers VALUES " + strings.Join(c, ",")},
		{"write_query", "INSERT INTO orders VALUES " + strings.Join(o, ",")},
	} {
		params, err := json.Marshal(map[string]any{"name": q.tool, "arguments": map[string]string{"query": q.sql}})
		if err != nil {
			return err
		}
		result, err := shop.Call(ctx, "tools/call", params, nil)
		if err != nil {
			return err
		}
		if text := textOf(result); strings.Contains(strings.ToLower(text), "error") {
			return fmt.Errorf("%.80s: %s", q.sql, text)
		}
	}
	return nil
}

// makeRepository makes a repository with a history of 24 commits.
func makeRepository(ctx context.Context, dir string, environ []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	git := func(when string, who string, args ...string) error {
		c := exec.CommandContext(ctx, "git", args...)
		c.Dir = dir
		c.Env = append(environ, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE="+when, "GIT_COMMITTER_DATE="+when, "GIT_AUTHOR_NAME="+who, "GIT_COMMITTER_NAME="+who,
			"GIT_AUTHOR_EMAIL="+strings.ToLower(who)+"@example.com", "GIT_COMMITTER_EMAIL="+strings.ToLower(who)+"@example.com")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
		return nil
	}
	day := time.Date(2026, 10, 1, 9, 0, 0, 0, time.UTC)
	stamp := func() string { return day.Format(time.RFC3339) }
	if err := git(stamp(), "Anna", "init", "-q", "-b", "main"); err != nil {
		return err
	}
	for i := range 24 {
		area := areas[(i*5)%len(areas)]
		var b strings.Builder
		for line := range 12 {
			fmt.Fprintf(&b, "def %s_%d(order):\n    return order.step(%d, limit=%d)\n\n", area, line, line, 10+(i+line)/3)
		}
		if err := os.WriteFile(filepath.Join(dir, area+".py"), []byte(b.String()), 0o644); err != nil {
			return err
		}
		if err := git(stamp(), "", "add", "-A"); err != nil {
			return err
		}
		if err := git(stamp(), managers[i%len(managers)], "commit", "-q", "-m", fmt.Sprintf("%s: raise the limits of step %d", area, i%12)); err != nil {
			return err
		}
		day = day.Add(26 * time.Hour)
	}
	return nil
}

// site is the web site of the tasks.
type site struct {
	url    string
	server *http.Server
	ended  chan struct{}
}

func newSite() (*site, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /changelog", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, changelog())
	})
	s := &site{url: "http://" + l.Addr().String(), server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		_ = s.server.Serve(l) // ends with close
	}()
	return s, nil
}

func (s *site) close() {
	_ = s.server.Close()
	<-s.ended
}

// changelog is a page with 60 releases, four of which break something.
func changelog() string {
	var b strings.Builder
	b.WriteString("<!doctype html><html><head><title>Changelog of the shop</title></head><body><article><h1>Changelog of the shop</h1>\n")
	for n := 60; n > 0; n-- {
		fmt.Fprintf(&b, "<h2>4.%d.0</h2>\n<p>Released on 2026-%02d-%02d by %s.</p>\n<ul>\n", n, 1+n/6, 1+n%28, managers[n%len(managers)])
		for i, area := range areas {
			fmt.Fprintf(&b, "<li>%s: pages of step %d load faster, and their errors name the order and the customer.</li>\n", area, (n+i)%12)
		}
		if n%16 == 5 {
			fmt.Fprintf(&b, "<li>BREAKING: %s</li>\n", html.EscapeString(fmt.Sprintf("%s takes amounts in cents since 4.%d.0", areas[n%len(areas)], n)))
		}
		b.WriteString("</ul>\n")
	}
	return b.String() + "</article></body></html>\n"
}
