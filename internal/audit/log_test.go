package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

func testKeys(t testing.TB) Keys {
	k, err := KeysFrom("a secret of the test")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// trusted are the options of a reader who knows the key of testKeys.
func trusted(t testing.TB) VerifyOptions {
	key, err := ParseKey(testKeys(t).Public())
	if err != nil {
		t.Fatal(err)
	}
	return VerifyOptions{Keys: []ed25519.PublicKey{key}}
}

func openLog(t testing.TB, o Options) *Log {
	t.Helper()
	if o.Keys.sign == nil {
		o.Keys = testKeys(t)
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// kinds returns the kinds of a log's records in order.
func kinds(t *testing.T, dir string) (list []string) {
	t.Helper()
	if err := Each(dir, func(raw []byte) bool {
		var r struct{ Kind string }
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		list = append(list, r.Kind)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := openLog(t, Options{Dir: dir})
		l.Add(&Record{Kind: Begin, Principal: "ci", Method: "tools/call", ToolID: "a:x@1", Args: []byte(`{"n":1}`)})
		l.Add(&Record{Kind: End, Principal: "ci", ToolID: "a:x@1", Outcome: "ok", Took: 1500 * time.Microsecond})
		time.Sleep(signAfter + time.Second)
		synctest.Wait()
		if got := strings.Join(kinds(t, dir), " "); got != "segment start signature begin end signature" {
			t.Errorf("after a minute: %s", got)
		}
		report, err := Verify(dir, trusted(t))
		if err != nil || report.Records != 6 || report.Signed != 6 || !report.Trusted {
			t.Errorf("%+v, %v", report, err)
		}
		l.Close()
		l = openLog(t, Options{Dir: dir})
		l.Close()
		if got := strings.Join(kinds(t, dir), " "); got != "segment start signature begin end signature stop signature start signature stop signature" {
			t.Errorf("after a second run: %s", got)
		}
		if report, err = Verify(dir, trusted(t)); err != nil || len(report.Notes) != 0 {
			t.Errorf("%+v, %v", report, err)
		}
		if _, err := Verify(dir, VerifyOptions{Seq: 5, Hash: report.Hash}); err == nil {
			t.Error("a record with another hash than the noted one passes")
		}
		other, _ := KeysFrom("another")
		key, _ := ParseKey(other.Public())
		if _, err := Verify(dir, VerifyOptions{Keys: []ed25519.PublicKey{key}}); err == nil {
			t.Error("another key passes")
		}
	})
}

// TestSegments: segments roll by size and by day, and are deleted by age.
func TestSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := openLog(t, Options{Dir: dir, MaxBytes: 4 << 10, Keep: 48 * time.Hour})
		for day := range 5 {
			for range 20 {
				l.Add(&Record{Kind: End, Outcome: "ok", Detail: fmt.Sprint("day ", day)})
				time.Sleep(2 * gather)
			}
			list, _ := segments(dir)
			if len(list) < 2 {
				t.Fatalf("day %d: segments %v", day, list)
			}
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			if _, err := Verify(dir, trusted(t)); err != nil {
				t.Fatalf("day %d: %v", day, err)
			}
		}
		l.Close()
		report, err := Verify(dir, trusted(t))
		if err != nil || report.First == 1 || !strings.Contains(fmt.Sprint(report.Notes), "deleted by age") {
			t.Errorf("%+v, %v", report, err)
		}
		// One file alone can be verified too.
		list, _ := segments(dir)
		if r, err := Verify(list[1].path, trusted(t)); err != nil || r.First == 1 || len(r.Notes) == 0 {
			t.Errorf("%+v, %v", r, err)
		}
		// The deletion of one more file is not explained.
		if err := os.Remove(list[0].path); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(dir, trusted(t)); err == nil || !strings.Contains(err.Error(), "no record tells that they were deleted") {
			t.Errorf("a file was removed: %v", err)
		}
	})
}

// filled makes a log with many records over several segments.
func filled(t testing.TB) string {
	dir := t.TempDir()
	l := openLog(t, Options{Dir: dir, MaxBytes: 8 << 10, Required: true})
	for i := range 60 {
		if err := l.Sync(context.Background(), &Record{Kind: Begin, Principal: "ci", ToolID: fmt.Sprintf("a:x%d@1", i), Args: []byte(`{"q":"` + strings.Repeat("z", i) + `"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	if _, err := Verify(dir, trusted(t)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestChanged: whatever is changed in the files of a log, Verify says so.
func TestChanged(t *testing.T) {
	dir := filled(t)
	list, err := segments(dir)
	if err != nil || len(list) < 3 {
		t.Fatalf("%v, %v", list, err)
	}
	good := map[string][]byte{}
	paths := []string{filepath.Join(dir, headName)}
	for _, s := range list {
		paths = append(paths, s.path)
	}
	for _, path := range paths {
		if good[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	cut := func(lines [][]byte) []byte { return bytes.Join(lines, nil) }
	ways := map[string]func(data []byte) []byte{
		"a bit": func(data []byte) []byte {
			data[random.IntN(len(data))] ^= 1 << random.IntN(8)
			return data
		},
		"a byte": func(data []byte) []byte {
			at := random.IntN(len(data))
			return append(data[:at], data[at+1:]...)
		},
		"a line deleted": func(data []byte) []byte {
			lines := bytes.SplitAfter(data, []byte("\n"))
			at := random.IntN(len(lines) - 1)
			return cut(append(lines[:at:at], lines[at+1:]...))
		},
		"a line twice": func(data []byte) []byte {
			lines := bytes.SplitAfter(data, []byte("\n"))
			at, from := random.IntN(len(lines)-1), random.IntN(len(lines)-1)
			return cut(append(lines[:at:at], append([][]byte{lines[from]}, lines[at:]...)...))
		},
		"lines swapped": func(data []byte) []byte {
			lines := bytes.SplitAfter(data, []byte("\n"))
			if len(lines) < 3 {
				return nil
			}
			at := random.IntN(len(lines) - 2)
			lines[at], lines[at+1] = lines[at+1], lines[at]
			return cut(lines)
		},
		"truncated":      func(data []byte) []byte { return data[:random.IntN(len(data))] },
		"lines cut away": func(data []byte) []byte { return data[:bytes.LastIndexByte(data[:len(data)-1], '\n')+1] },
		"line inserted":  func(data []byte) []byte { return append(data, "{}\n"...) },
	}
	for name, way := range ways {
		for n := range 100 {
			path := paths[random.IntN(len(paths))]
			changed := way(bytes.Clone(good[path]))
			if bytes.Equal(changed, good[path]) {
				continue
			}
			if err := os.WriteFile(path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			if report, err := Verify(dir, trusted(t)); err == nil {
				t.Errorf("%s in %s, attempt %d: nothing is said, %+v", name, filepath.Base(path), n, report)
			}
			if err := os.WriteFile(path, good[path], 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, path := range paths {
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(dir, trusted(t)); err == nil {
			t.Errorf("%s is away, and nothing is said", filepath.Base(path))
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Verify(dir, trusted(t)); err != nil {
		t.Error(err)
	}
}

// TestForged: a whole chain that is made anew does not pass the signatures.
func TestForged(t *testing.T) {
	dir := t.TempDir()
	keys, _ := KeysFrom("of the forger")
	l := openLog(t, Options{Dir: dir, Keys: keys})
	l.Add(&Record{Kind: End, Outcome: "ok"})
	l.Close()
	if _, err := Verify(dir, VerifyOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(dir, trusted(t)); err == nil {
		t.Error("a log of another key passes")
	}
}

// TestTorn: a line that a crash cut in two is moved away and recorded.
func TestTorn(t *testing.T) {
	dir := filled(t)
	list, _ := segments(dir)
	last := list[len(list)-1].path
	f, err := os.OpenFile(last, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"seq":99,"time":"20`)
	f.Close()
	if report, err := Verify(dir, trusted(t)); err != nil || !strings.Contains(fmt.Sprint(report.Notes), "unfinished line") {
		t.Errorf("before the start: %+v, %v", report, err)
	}
	l := openLog(t, Options{Dir: dir})
	l.Close()
	report, err := Verify(dir, trusted(t))
	if err != nil || !strings.Contains(fmt.Sprint(report.Notes), "were no record and are in") {
		t.Errorf("%+v, %v", report, err)
	}
	side, _ := filepath.Glob(filepath.Join(dir, "*.torn-*"))
	if len(side) != 1 {
		t.Fatalf("side files %v", side)
	}
	if data, _ := os.ReadFile(side[0]); string(data) != `{"seq":99,"time":"20` {
		t.Errorf("the side file has %s", data)
	}
}

// TestLostAtStart: a start after records vanished says so, and how bad it is.
func TestLostAtStart(t *testing.T) {
	for _, signed := range []bool{false, true} {
		dir := filled(t)
		list, _ := segments(dir)
		last := list[len(list)-1].path
		data, _ := os.ReadFile(last)
		lines := bytes.SplitAfter(data, []byte("\n"))
		if err := os.WriteFile(last, bytes.Join(lines[:len(lines)-3], nil), 0o600); err != nil {
			t.Fatal(err)
		}
		if !signed { // as if the signature had not been on disk
			h, err := readHead(dir)
			if err != nil {
				t.Fatal(err)
			}
			h.Signed = 1
			if err := os.WriteFile(filepath.Join(dir, headName), h.bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		openLog(t, Options{Dir: dir}).Close()
		report, err := Verify(dir, trusted(t))
		if signed != (err != nil) || !strings.Contains(fmt.Sprint(report.Notes, err), "are missing") {
			t.Errorf("signed %v: %+v, %v", signed, report, err)
		}
	}
}

// badFile is a disk that fails on demand.
type badFile struct {
	file
	mu  *sync.Mutex
	bad *error
}

func (b badFile) WriteAt(p []byte, off int64) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if *b.bad != nil {
		n, _ := b.file.WriteAt(p[:len(p)/2], off) // a full disk takes a part
		return n, *b.bad
	}
	return b.file.WriteAt(p, off)
}

// TestDiskFails: a required log refuses, another one counts; both go on when the disk does.
func TestDiskFails(t *testing.T) {
	for _, required := range []bool{false, true} {
		dir := t.TempDir()
		var mu sync.Mutex
		var bad error
		l := openLog(t, Options{Dir: dir, Required: required, open: func(path string) (file, error) {
			f, err := openFile(path)
			return badFile{f, &mu, &bad}, err
		}})
		set := func(err error) { mu.Lock(); bad = err; mu.Unlock() }
		add := func() error { return l.Sync(t.Context(), &Record{Kind: Begin, Principal: "ci"}) }
		if err := add(); err != nil {
			t.Fatal(err)
		}
		for !slices.Contains(kinds(t, dir), "begin") {
			time.Sleep(time.Millisecond)
		}
		set(errors.New("no space left on device"))
		if err := add(); required != errors.Is(err, errUnavailable) {
			t.Errorf("required %v: %v", required, err)
		}
		for l.Lost() == 0 {
			time.Sleep(time.Millisecond)
		}
		set(nil)
		if err := add(); err != nil {
			t.Error(err)
		}
		l.Close()
		report, err := Verify(dir, trusted(t))
		if err != nil || !strings.Contains(fmt.Sprint(report.Notes), "1 records could not be written") {
			t.Errorf("required %v: %+v, %v", required, report, err)
		}
	}
}

// TestFull: a log that is not required drops records in place of waiting, and says how many.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	block := make(chan struct{})
	var once sync.Once
	started := make(chan struct{})
	l := openLog(t, Options{Dir: dir, Queue: 4, open: func(path string) (file, error) {
		f, err := openFile(path)
		return slowFile{f, func() { once.Do(func() { close(started) }); <-block }, new(int)}, err
	}})
	l.Add(&Record{Kind: End})
	<-started
	for range 10 {
		l.Add(&Record{Kind: End})
	}
	close(block)
	l.Close()
	if got := l.Lost(); got != 6 {
		t.Errorf("%d records are lost", got)
	}
	report, err := Verify(dir, trusted(t))
	if err != nil || !strings.Contains(fmt.Sprint(report.Notes), "6 records could not be written") {
		t.Errorf("%+v, %v", report, err)
	}
}

// slowFile blocks the third write, after the records of the start.
type slowFile struct {
	file
	wait func()
	n    *int
}

func (s slowFile) WriteAt(p []byte, off int64) (int, error) {
	if *s.n++; *s.n == 3 {
		s.wait()
	}
	return s.file.WriteAt(p, off)
}

// TestOneWriter: a second process cannot write into the same folder.
func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, Options{Dir: dir})
	defer l.Close()
	if _, err := Open(Options{Dir: dir, Keys: testKeys(t)}); err == nil || !strings.Contains(err.Error(), "audit.dir of its own") {
		t.Errorf("%v", err)
	}
}

func TestConcurrent(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, Options{Dir: dir, Required: true, MaxBytes: 16 << 10})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := l.Sync(context.Background(), &Record{Kind: Begin, Principal: "p"}); err != nil {
					t.Error(err)
				}
				l.Add(&Record{Kind: End, Principal: "p"})
			}
		})
	}
	all.Wait()
	l.Close()
	l.Close()
	l.Add(&Record{Kind: End}) // too late, and harmless
	n := 0
	for _, k := range kinds(t, dir) {
		if k == "begin" || k == "end" {
			n++
		}
	}
	if n != 800 {
		t.Errorf("%d records", n)
	}
	if _, err := Verify(dir, trusted(t)); err != nil {
		t.Error(err)
	}
}

// TestVector: the vector of spec/audit §1.
func TestVector(t *testing.T) {
	var c chain
	line1 := c.append(nil, func(dst []byte) []byte { return append(dst, `,"kind":"end"`...) })
	line2 := c.append(nil, func(dst []byte) []byte { return append(dst, `,"kind":"end","outcome":"ok"`...) })
	doc, err := os.ReadFile("../../docs/spec/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]byte{line1, line2} {
		if !bytes.Contains(doc, line[:len(line)-1]) {
			t.Errorf("docs/spec/audit.md lacks the vector %s", line)
		}
	}
	keys := testKeys(t)
	for _, want := range []string{
		keys.Public(), rawjson.Text(arguments(t, keys, FormHash, []byte(`{ "b": 1.0, "a": "\u00e9/" }`), nil)),
	} {
		if !bytes.Contains(doc, []byte(want)) {
			t.Errorf("docs/spec/audit.md lacks the vector %s", want)
		}
	}
}

func TestArguments(t *testing.T) {
	k := testKeys(t)
	redact := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("hunter2"), []byte("[secret]")) }
	args := []byte(`{"b":1, "a":"hunter2"}`)
	for form, want := range map[Form]string{
		FormNone: "", FormFull: `{"a":"hunter2","b":1}`, FormRedacted: `{"a":"[secret]","b":1}`,
		FormHash: string(arguments(t, k, FormHash, []byte(`{"a":"hunter2","b":1}`), nil)),
	} {
		if got := string(arguments(t, k, form, args, redact)); got != want {
			t.Errorf("%s: %s, want %s", form, got, want)
		}
	}
	if got := arguments(t, k, FormHash, args, nil); bytes.Contains(got, []byte("hunter2")) || len(got) < 64 {
		t.Errorf("hash: %s", got)
	}
	if got := arguments(t, k, FormFull, []byte(`"`+strings.Repeat("x", maxArgs)+`"`), nil); len(got) > 200 {
		t.Errorf("large arguments have %d bytes", len(got))
	}
	other, _ := KeysFrom("another")
	if bytes.Equal(arguments(t, other, FormHash, args, nil), arguments(t, k, FormHash, args, nil)) {
		t.Error("the hash does not depend on the key")
	}
}

// TestHostileTexts: whatever callers send, a record is one line of JSON within the bound.
func TestHostileTexts(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, Options{Dir: dir})
	for _, text := range []string{"a\nb", `","hash":"`, "\xff\xfe", strings.Repeat("é", 1<<20), "\u2028", "\x00"} {
		l.Add(&Record{Kind: Refusal, Principal: text, Method: text, ToolID: text, Detail: text, Labels: []string{text}})
	}
	l.Close()
	if _, err := Verify(dir, trusted(t)); err != nil {
		t.Error(err)
	}
	if n := len(kinds(t, dir)); n != 3+6+2 {
		t.Errorf("%d records", n)
	}
}

func FuzzReadLine(f *testing.F) {
	var c chain
	first := bytes.TrimSuffix(c.append(nil, (&Record{Kind: End, Detail: "é"}).appendJSON), []byte("\n"))
	f.Add(first)
	f.Add(bytes.TrimSuffix(c.append(nil, (&Record{Kind: Begin, Args: []byte(`{"a":[1]}`)}).appendJSON), []byte("\n")))
	f.Add([]byte(`{"seq":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := readLine(raw)
		if err != nil {
			return
		}
		if sumOf(l.prev, raw[:len(raw)-hashTail]) != l.hash || !json.Valid(raw) {
			t.Errorf("%q was taken", raw)
		}
	})
}

// stored is a log that an earlier version wrote. It must stay readable.
const stored = "testdata/log"

func TestStored(t *testing.T) {
	if r, err := Verify(stored, trusted(t)); err != nil || r.Records < 9 || len(r.Notes) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func FuzzVerify(f *testing.F) {
	list, err := segments(stored)
	if err != nil {
		f.Fatal(err)
	}
	good := make([][]byte, len(list))
	for i, s := range list {
		if good[i], err = os.ReadFile(s.path); err != nil {
			f.Fatal(err)
		}
		f.Add(good[i])
	}
	opts := trusted(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		v := &verifier{opts: opts}
		err := v.read(segment{path: "log"}, bytes.NewReader(data), true)
		if err == nil {
			_, err = v.end()
		}
		if err == nil && !slices.ContainsFunc(good, func(g []byte) bool { return bytes.HasPrefix(g, data) }) {
			t.Errorf("a log that was never written passes: %q", data)
		}
	})
}
