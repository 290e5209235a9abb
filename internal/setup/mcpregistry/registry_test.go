package mcpregistry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/setup/mcpregistry"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// fakeRegistry answers as the path says; page n of a search has one server and a cursor to the next.
func fakeRegistry(t *testing.T, asked *[]string) *httptest.Server {
	t.Helper()
	var mu sync.Mutex // guards asked: a handler outlives a client that has given up
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		*asked = append(*asked, r.URL.RequestURI())
		mu.Unlock()
		const latest = "/v0.1/servers/"
		switch {
		case r.URL.Path == "/v0.1/servers":
			query := r.URL.Query()
			if query.Get("version") != "latest" || query.Get("limit") != "100" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			switch word, cursor := query.Get("search"), query.Get("cursor"); {
			case word == "endless":
				fmt.Fprintf(w, `{"servers":[],"metadata":{"nextCursor":"%sx"}}`, cursor)
			case cursor == "":
				fmt.Fprint(w, `{"servers":[{"server":{"name":"io.a/one","description":"paint `+word+`"}},{"server":{"name":"broken"}},"text"],"metadata":{"nextCursor":"c 2"}}`)
			case cursor == "c 2":
				fmt.Fprint(w, `{"servers":[{"server":{"name":"io.a/`+word+`","description":"forecast and `+word+` of a place"},"_meta":{"io.modelcontextprotocol.registry/official":{"status":"active"}}}],"metadata":{"next_cursor":"c3"}}`)
			default:
				fmt.Fprint(w, `{"servers":[{"server":{"name":"io.a/gone-`+word+`","description":"`+word+`"},"_meta":{"io.modelcontextprotocol.registry/official":{"status":"deleted"}}}],"metadata":{}}`)
			}
		case r.URL.EscapedPath() != latest+strings.ReplaceAll(strings.TrimPrefix(r.URL.Path, latest), "/", "%2F") && !strings.HasSuffix(r.URL.EscapedPath(), "/versions/latest"):
			w.WriteHeader(http.StatusBadRequest)
		case strings.Contains(r.URL.EscapedPath(), "io.a%2Fgood"):
			fmt.Fprint(w, `{"server":{"name":"io.a/good","version":"1.2.3","packages":[{"registryType":"npm","identifier":"good","version":"1.2.3"}]},"_meta":{"x":5}}`)
		case strings.Contains(r.URL.EscapedPath(), "io.a%2Fold"):
			fmt.Fprint(w, `{"name":"io.a/old","version":"1.0.0","status":"deprecated","packages":[{"registry_type":"pypi","identifier":"old","version":"1.0.0","environment_variables":[{"name":"API_KEY","is_required":true,"is_secret":true}],"package_arguments":[{"type":"positional","value":"{is_required}","variables":{"is_required":{"default":7}}}]}]}`)
		case strings.Contains(r.URL.EscapedPath(), "io.a%2Fdeleted"):
			fmt.Fprint(w, `{"server":{"name":"io.a/deleted"},"_meta":{"io.modelcontextprotocol.registry/official":{"status":"deleted","statusMessage":"it was malware"}}}`)
		case strings.Contains(r.URL.EscapedPath(), "io.a%2Fother"):
			fmt.Fprint(w, `{"server":{"name":"io.a/good"}}`)
		case strings.Contains(r.URL.EscapedPath(), "io.a%2Fslow"):
			<-r.Context().Done()
		case strings.Contains(r.URL.EscapedPath(), "io.a%2Fhuge"):
			fmt.Fprintf(w, `{"server":{"name":"io.a/huge","description":"%s"}}`, strings.Repeat("x", 1<<20))
		case strings.Contains(r.URL.EscapedPath(), "io.a%2Fdown"):
			w.WriteHeader(http.StatusInternalServerError)
		case strings.Contains(r.URL.EscapedPath(), "io.a%2Fhtml"):
			fmt.Fprint(w, "<html>")
		case strings.Contains(r.URL.EscapedPath(), "io.a%2Fwrong"):
			fmt.Fprint(w, `{"server":{"name":"io.a/wrong","packages":{}}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func client(t *testing.T, o mcpregistry.Options) *mcpregistry.Client {
	t.Helper()
	c, err := mcpregistry.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLatest(t *testing.T) {
	var asked []string
	s := fakeRegistry(t, &asked)
	c := client(t, mcpregistry.Options{URL: s.URL + "/", HTTP: s.Client(), Timeout: 30 * time.Second})
	hasty := client(t, mcpregistry.Options{URL: s.URL + "/", HTTP: s.Client(), Timeout: 300 * time.Millisecond})
	good, age, err := c.Latest(t.Context(), "io.a/good")
	if err != nil || age != 0 || good.Version != "1.2.3" || good.Packages[0].Identifier != "good" {
		t.Errorf("%+v, %v, %v", good, age, err)
	}
	if want := "/v0.1/servers/io.a%2Fgood/versions/latest"; asked[0] != want {
		t.Errorf("asked for %s, want %s", asked[0], want)
	}
	old, _, err := c.Latest(t.Context(), "io.a/old")
	if err != nil || old.Status != "deprecated" || !old.Packages[0].EnvironmentVariables[0].IsSecret || old.Packages[0].PackageArguments[0].Variables["is_required"].Default != "7" {
		t.Errorf("%+v, %v", old, err)
	}
	for name, want := range map[string]string{
		"io.a/deleted": "has been deleted from the registry: it was malware",
		"io.a/other":   `the registry answers with "io.a/good"`,
		"io.a/slow":    "did not answer within 300ms",
		"io.a/huge":    "larger than 1 MB",
		"io.a/down":    "500 Internal Server Error",
		"io.a/html":    "is not JSON; check registry.url",
		"io.a/wrong":   "the value of packages is of another type",
		"io.a/none":    "the registry has no such server",
		"../etc":       "is no name of the registry",
	} {
		c := c
		if name == "io.a/slow" {
			c = hasty
		}
		if _, _, err := c.Latest(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, mcpregistry.ErrMissing) != (name == "io.a/none") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	for _, at := range []string{"ftp://x", "://", "https://user@x", "x"} {
		if _, err := mcpregistry.New(mcpregistry.Options{URL: at}); err == nil {
			t.Errorf("%q is a registry", at)
		}
	}
}

// TestOffline: without the registry the last answer serves, with its age; what was never asked fails.
func TestOffline(t *testing.T) {
	var asked []string
	s := fakeRegistry(t, &asked)
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	c := client(t, mcpregistry.Options{URL: s.URL, CacheDir: t.TempDir() + "/registry", Now: func() time.Time { return now }})
	if _, _, err := c.Latest(t.Context(), "io.a/good"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Search(t.Context(), "weather", 5); err != nil {
		t.Fatal(err)
	}
	s.Close()
	now = now.Add(3 * time.Hour)
	if got, age, err := c.Latest(t.Context(), "io.a/good"); err != nil || age != 3*time.Hour || got.Version != "1.2.3" {
		t.Errorf("%+v, %v, %v", got, age, err)
	}
	if hits, age, err := c.Search(t.Context(), "weather", 5); err != nil || age != 3*time.Hour || len(hits) != 2 {
		t.Errorf("%+v, %v, %v", hits, age, err)
	}
	if _, _, err := c.Latest(t.Context(), "io.a/old"); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("%v", err)
	}
}

func TestSearch(t *testing.T) {
	var asked []string
	s := fakeRegistry(t, &asked)
	c := client(t, mcpregistry.Options{URL: s.URL})
	hits, _, err := c.Search(t.Context(), "weather of", 5)
	if err != nil || len(hits) != 2 || hits[0].Name != "io.a/weather" {
		t.Errorf("%+v, %v", hits, err)
	}
	if len(asked) != 3 || !strings.Contains(asked[1], "cursor=c+2") || !strings.Contains(asked[2], "cursor=c3") {
		t.Errorf("asked for %q", asked)
	}
	asked = nil
	if hits, _, err := c.Search(t.Context(), "endless", 5); err != nil || len(hits) != 0 || len(asked) != 20 {
		t.Errorf("%+v, %v, %d pages", hits, err, len(asked))
	}
}

// machine has the programs of a list.
func machine(programs ...string) mcpregistry.Machine {
	return mcpregistry.Machine{Has: func(program string) bool { return slices.Contains(programs, program) }}
}

func document(t *testing.T, text string) (s mcpregistry.Server) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if s.Name == "" {
		s.Name = "io.a/weather"
	}
	return s
}

const sum = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestPlan(t *testing.T) {
	const npm = `{"registryType":"npm","identifier":"@a/b","version":"1.2.3","runtimeArguments":[{"type":"named","name":"--node-options","value":"--trace"}],
		"packageArguments":[{"type":"positional","valueHint":"folder","isRequired":true},{"type":"named","name":"--region","default":"eu","choices":["eu","us"]},{"type":"named","name":"--verbose","format":"boolean"},{"type":"named","name":"--once"}],
		"environmentVariables":[{"name":"API_KEY","isSecret":true,"isRequired":true,"default":"x"},{"name":"OPTIONAL"},{"name":"AUTH","value":"Bearer {token} $${x}","variables":{"token":{"isSecret":true},"x":{"value":"{env:HOME}"}}}]}`
	for _, tc := range []struct {
		name, doc string
		machine   mcpregistry.Machine
		answers   map[string]string
		want      string // the entry as JSON, or the error
	}{
		{"npm", `{"packages":[` + npm + `]}`, machine("npx"), map[string]string{"folder": "/a b;$(x) ${env:HOME}", "WEATHER_API_KEY": "k", "WEATHER_TOKEN": "t", "verbose": "true"},
			`{"command":"npx","args":["--node-options","--trace","-y","@a/b@1.2.3","/a b;$(x) $${env:HOME}","--region","eu","--verbose","--once"],"env":{"API_KEY":"${secret:WEATHER_API_KEY}","AUTH":"Bearer ${secret:WEATHER_TOKEN} $$${env:HOME}"}}`},
		{"missing answers", `{"packages":[` + npm + `]}`, machine("npx"), nil, "io.a/weather needs a value for folder, WEATHER_API_KEY"},
		{"no such choice", `{"packages":[` + npm + `]}`, machine("npx"), map[string]string{"folder": "x", "WEATHER_API_KEY": "k", "region": "asia"}, "region must be one of: eu, us"},
		{"no runtime", `{"packages":[` + npm + `]}`, machine(), nil, "npm: there is no npx; install Node.js"},
		{"uvx where there is no npx", `{"packages":[` + npm + `,{"registryType":"pypi","identifier":"b","version":"2.0"}]}`, machine("uvx"), nil, `{"command":"uvx","args":["b@2.0"]}`},
		{"npm before pypi", `{"packages":[{"registryType":"pypi","identifier":"b","version":"2.0"},{"registryType":"npm","identifier":"b","version":"2.0.0"}]}`, machine("uvx", "npx"), nil, `{"command":"npx","args":["-y","b@2.0.0"]}`},
		{"image", `{"packages":[{"registryType":"oci","identifier":"ghcr.io/a/b:1.0","runtimeArguments":[{"type":"named","name":"-v","value":"{dir}:/data","variables":{"dir":{"isRequired":true}}}],"packageArguments":[{"type":"positional","value":"serve"}],"environmentVariables":[{"name":"K","value":"v"}]}]}`, machine("podman"), map[string]string{"dir": "/x"},
			`{"command":"podman","args":["run","-i","--rm","-e","K","-v","/x:/data","ghcr.io/a/b:1.0","serve"],"env":{"K":"v"}}`},
		{"image of older documents", `{"packages":[{"registryType":"oci","registryBaseUrl":"https://ghcr.io","identifier":"a/b","version":"1.0"}]}`, machine("docker"), nil, `{"command":"docker","args":["run","-i","--rm","ghcr.io/a/b:1.0"]}`},
		{"image without a tag", `{"packages":[{"registryType":"oci","identifier":"localhost:5000/a/b"}]}`, machine("docker"), nil, "has no exact tag"},
		{"latest image", `{"packages":[{"registryType":"oci","identifier":"a/b:latest"}]}`, machine("docker"), nil, "has no exact tag"},
		{"nuget", `{"packages":[{"registryType":"nuget","identifier":"A.B","version":"1.0.0","packageArguments":[{"type":"positional","value":"mcp"}]}]}`, machine("dnx"), nil, `{"command":"dnx","args":["A.B@1.0.0","--yes","--","mcp"]}`},
		{"remote with a key", `{"remotes":[{"type":"streamable-http","url":"https://{region}.a.example/mcp","variables":{"region":{"default":"eu"}},"headers":[{"name":"X-Key","isSecret":true,"isRequired":true}]}],"packages":[` + npm + `]}`, machine("npx"), map[string]string{"WEATHER_X_KEY": "k"},
			`{"type":"http","url":"https://eu.a.example/mcp","headers":{"X-Key":"${secret:WEATHER_X_KEY}"}}`},
		{"remote that may want OAuth", `{"remotes":[{"type":"sse","url":"https://a.example/sse"}]}`, machine(), nil, "remote: it may want a login (OAuth)"},
		{"open remote", `{"remotes":[{"type":"sse","url":"https://a.example/sse"}]}`, mcpregistry.Machine{Open: func(string) bool { return true }}, nil, `{"type":"sse","url":"https://a.example/sse"}`},
		{"remote in the clear", `{"remotes":[{"type":"sse","url":"http://a.example/sse","headers":[{"name":"K"}]}]}`, machine(), nil, "is not https"},
		{"remote with a bad header", `{"remotes":[{"type":"sse","url":"https://a.example/sse","headers":[{"name":"K: v"}]}]}`, machine(), nil, "is no name of a header"},
		{"no exact version", `{"packages":[{"registryType":"npm","identifier":"a","version":"^1.0.0"}]}`, machine("npx"), nil, `"^1.0.0" is no exact version`},
		{"latest", `{"packages":[{"registryType":"npm","identifier":"a","version":"latest"}]}`, machine("npx"), nil, "is no exact version"},
		{"an option for a name", `{"packages":[{"registryType":"npm","identifier":"--call=sh","version":"1.0.0"}]}`, machine("npx"), nil, "is no name of a package"},
		{"a URL for a name", `{"packages":[{"registryType":"npm","identifier":"https://evil.example/a.tgz","version":"1.0.0"}]}`, machine("npx"), nil, "is no name of a package"},
		{"a registry of its own", `{"packages":[{"registryType":"npm","registryBaseUrl":"https://evil.example","identifier":"a","version":"1.0.0"}]}`, machine("npx"), nil, "in a registry of its own"},
		{"a package that serves HTTP", `{"packages":[{"registryType":"npm","identifier":"a","version":"1.0.0","transport":{"type":"streamable-http"}}]}`, machine("npx"), nil, "speak stdio"},
		{"a variable with no name", `{"packages":[{"registryType":"npm","identifier":"a","version":"1.0.0","environmentVariables":[{"name":"A=B"}]}]}`, machine("npx"), nil, "no name of a variable"},
		{"bundle without a sum", `{"packages":[{"registryType":"mcpb","identifier":"https://a.example/a.mcpb","fileSha256":"abc"}]}`, machine(), nil, "no SHA-256"},
		{"bundle in the clear", `{"packages":[{"registryType":"mcpb","identifier":"http://a.example/a.mcpb","fileSha256":"` + sum + `"}]}`, machine(), nil, "no https URL"},
		{"nothing", `{"packages":[{"registryType":"cargo","identifier":"a","version":"1.0.0"}]}`, machine(), nil, "neither a remote server nor a package"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan, err := mcpregistry.NewPlan(document(t, tc.doc), tc.machine)
			var entry mcpregistry.Entry
			if err == nil {
				entry, err = plan.Fill(tc.answers)
			}
			if err != nil {
				if !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %s", err, tc.want)
				}
				return
			}
			var b strings.Builder
			encoder := json.NewEncoder(&b)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(entry); err != nil || strings.TrimSpace(b.String()) != tc.want {
				t.Errorf("%s, %v\nwant\n%s", b.String(), err, tc.want)
			}
		})
	}
}

func TestQuestions(t *testing.T) {
	plan, err := mcpregistry.NewPlan(document(t, `{"name":"io.a/weather","status":"deprecated","statusMessage":"use\nb","packages":[{"registryType":"npm","identifier":"a","version":"1.0.0",
		"environmentVariables":[{"name":"API_KEY","isSecret":true,"isRequired":true,"default":"changeme","description":"Your key"},{"name":"PORT","format":"number","default":8080},{"name":"FIXED","value":"x"}]}]}`), machine("npx"))
	if err != nil {
		t.Fatal(err)
	}
	want := []mcpregistry.Question{{ID: "WEATHER_API_KEY", Secret: true, Description: "Your key", Required: true}, {ID: "PORT", Format: "number", Default: "8080"}}
	if !slices.EqualFunc(plan.Questions, want, func(a, b mcpregistry.Question) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Errorf("%+v\nwant\n%+v", plan.Questions, want)
	}
	if plan.Kind != "npm" || plan.Warning != "io.a/weather is deprecated: use b" {
		t.Errorf("%q, %q", plan.Kind, plan.Warning)
	}
	bundle, err := mcpregistry.NewPlan(document(t, `{"packages":[{"registryType":"mcpb","identifier":"https://a.example/a.mcpb","fileSha256":"`+strings.ToUpper(sum)+`"}]}`), machine())
	if err != nil || bundle.Bundle == nil || *bundle.Bundle != (mcpregistry.Bundle{URL: "https://a.example/a.mcpb", SHA256: sum}) {
		t.Errorf("%+v, %v", bundle, err)
	}
	if _, err := bundle.Fill(nil); err == nil {
		t.Error("a bundle that is not there has an entry")
	}
}

func ExampleNewPlan() {
	var s mcpregistry.Server
	_ = json.Unmarshal([]byte(`{"name":"io.a/weather","packages":[{"registryType":"npm","identifier":"weather","version":"1.0.0","environmentVariables":[{"name":"KEY","isSecret":true}]}]}`), &s)
	plan, err := mcpregistry.NewPlan(s, mcpregistry.Machine{Has: func(string) bool { return true }})
	if err != nil {
		panic(err)
	}
	entry, err := plan.Fill(map[string]string{plan.Questions[0].ID: "the key"})
	fmt.Println(entry.Command, entry.Args, slices.Collect(maps.Values(entry.Env)), err)
	// Output: npx [-y weather@1.0.0] [${secret:WEATHER_KEY}] <nil>
}
