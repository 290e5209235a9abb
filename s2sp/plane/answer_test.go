package plane_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// pieces gives data in pieces of random sizes.
type pieces struct {
	data []byte
	most int
	r    *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.data[:min(len(p.data), 1+p.r.IntN(p.most))])
	p.data = p.data[n:]
	if len(p.data) == 0 && p.r.IntN(2) == 0 {
		return n, io.EOF
	}
	return n, nil
}

func (p *pieces) Close() error { return nil }

// read reads an answer to its end.
func read(a *plane.Answer) (rows string, err error) {
	out := []byte{'['}
	for {
		row, err := a.Next()
		if errors.Is(err, io.EOF) {
			if _, again := a.Next(); !errors.Is(again, io.EOF) {
				return "", fmt.Errorf("behind the end: %v", again)
			}
			return string(append(out, ']')), nil
		}
		if err != nil {
			return "", err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, row...)
	}
}

// someAnswer makes the answer of a data plane: rows with what comes before,
// between and behind them.
func someAnswer(r *rand.Rand) (answer string, rows []string) {
	space := func() string { return strings.Repeat([]string{" ", "\n", "\t", "\r\n"}[r.IntN(4)], r.IntN(3)) }
	values := []string{`1`, `null`, `"}]{[\"\\"`, `"\\"`, `[[1],{"b":"]"}]`, `"` + strings.Repeat("x", r.IntN(300)) + `"`, `12345678901234567890`, `"\ud83d\ude00"`}
	for i := range r.IntN(20) {
		fields := []string{fmt.Sprintf(`"_row_id":%s%d`, space(), i)}
		if r.IntN(8) == 0 {
			fields = nil
		}
		for _, key := range []string{"a", "b", "c"} {
			if r.IntN(3) > 0 {
				fields = append(fields, fmt.Sprintf(`%s"%s":%s%s%s`, space(), key, space(), values[r.IntN(len(values))], space()))
			}
		}
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		rows = append(rows, "{"+strings.Join(fields, ",")+"}")
	}
	body := `"body"` + space() + ":" + space() + "[" + space()
	for i, row := range rows {
		if i > 0 {
			body += space() + "," + space()
		}
		body += row
	}
	members := []string{body + space() + "]", `"total_rows":` + fmt.Sprint(len(rows)), `"columns_returned" : ["a","body",{"body":[]}]`, `"x":"body"`}
	members = members[:1+r.IntN(len(members))]
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return space() + "{" + space() + strings.Join(members, space()+","+space()) + space() + "}" + space(), rows
}

// However an answer comes, what is read of it row by row is what is selected from
// the whole.
func TestAnswerInPieces(t *testing.T) {
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 2))
		answer, rows := someAnswer(r)
		if err := rawjson.Valid([]byte(answer)); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		var sel table.Selection
		for range r.IntN(2) * r.IntN(5) {
			sel.RowIDs = append(sel.RowIDs, r.IntN(22))
		}
		if r.IntN(2) == 0 {
			sel.Columns = []string{"c", "a", "nope"}
		}
		a := plane.NewAnswer(t.Context(), &pieces{[]byte(answer), 1 + r.IntN(400), r}, sel, 1<<20)
		got, err := read(a)
		if err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		whole, err := table.Index([]byte("["+strings.Join(rows, ",")+"]"), table.Options{KeepRowID: true})
		if err != nil {
			t.Fatal(err)
		}
		want, skipped := "[]", 0
		if whole.Has(table.RowID) {
			want = string(sel.Select(whole).AppendJSON(nil))
		}
		for _, row := range rows {
			if rawjson.Get([]byte(row), table.RowID) == nil {
				skipped++
			}
		}
		if same(t, got) != same(t, want) || a.Skipped() != skipped {
			t.Fatalf("%v of %s:\n got %s\nwant %s\n%d skipped, want %d", sel, answer, got, want, a.Skipped(), skipped)
		}
	}
}

func same(t *testing.T, text string) string {
	t.Helper()
	out, ok := rawjson.AppendCanonical(nil, []byte(text))
	if !ok {
		t.Fatalf("%s", text)
	}
	return string(out)
}

func TestAnswerWithNaN(t *testing.T) {
	const answer = `{"body":[{"_row_id":0,"v":NaN,"w":"NaN }"},{"_row_id":1,"v":[-Infinity,Infinity]}],"total_rows":2}`
	for most := 1; most < len(answer); most += 7 {
		a := plane.NewAnswer(t.Context(), &pieces{[]byte(answer), most, rand.New(rand.NewPCG(1, uint64(most)))}, table.Selection{}, 1<<20)
		got, err := read(a)
		if err != nil || got != `[{"_row_id":0,"v":null,"w":"NaN }"},{"_row_id":1,"v":[null,null]}]` || a.Nulled() != 3 {
			t.Fatalf("in pieces of %d: %s, %d, %v", most, got, a.Nulled(), err)
		}
	}
}

// Rows are UTF-8, whatever a server sends.
func TestAnswerThatIsNoUTF8(t *testing.T) {
	const answer = "{\"body\":[{\"_row_id\":0,\"v\":\"a\xffb\"},{\"_row_id\":1,\"v\":\"é\\ud83d\"}],\"total_rows\":2}"
	a := plane.NewAnswer(t.Context(), &pieces{[]byte(answer), 5, rand.New(rand.NewPCG(1, 1))}, table.Selection{}, 1<<20)
	if got, err := read(a); err != nil || got != `[{"_row_id":0,"v":"a�b"},{"_row_id":1,"v":"é\ufffd"}]` {
		t.Errorf("%q, %v", got, err)
	}
}

func TestBrokenAnswers(t *testing.T) {
	for answer, says := range map[string]string{
		``:                            "ends early",
		`[]`:                          "no object",
		`{}`:                          "no body",
		`{"body":7}`:                  "not an array",
		`{"body":[7]}`:                "not an object",
		`{"body":[{"_row_id":0}`:      "ends early",
		`{"body":[{"_row_id":0`:       "ends early",
		`{"body":[{"_row_id":0},]}`:   "not an object",
		`{"body":[{"_row_id":0} {}]}`: "comma",
		`{"body":[{"_row_id":0x1}]}`:  "no table",
		`{"body":[{"_row_id":NaN,}]}`: "no table",
		`{"body":[]`:                  "ends early",
		`{"body":[]} {}`:              "text behind",
		`{"body":[],"x":tru}`:         "not a value",
		`{"body":[] "x":1}`:           "comma",
		`{"body":[],"body":[]}`:       "duplicate",
		`{"x" 1}`:                     "colon",
		`{1:2}`:                       "key",
		`{"body":[{"_row_id":0,"a":"` + strings.Repeat("x", 2000) + `"}]}`: "1000 bytes",
	} {
		for _, most := range []int{1, 3, 5000} {
			a := plane.NewAnswer(t.Context(), &pieces{[]byte(answer), most, rand.New(rand.NewPCG(1, 1))}, table.Selection{}, 1000)
			got, err := read(a)
			if !errors.Is(err, plane.ErrAnswer) || !errors.Is(err, plane.ErrFetch) || !strings.Contains(err.Error(), says) {
				t.Errorf("%.60s in pieces of %d: %s, %v, want %q", answer, most, got, err, says)
			}
			if _, again := a.Next(); !errors.Is(again, err) {
				t.Errorf("%.60s: the next row: %v", answer, again)
			}
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"body":[{"_row_id":0,"a":1}],"total_rows":1}`, `{"x":{"body":[]},"body":[{"a":NaN,"_row_id":1}]}`, `{"body":[{}]}`, `{"body":[`} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, most uint8) {
		got, err := read(plane.NewAnswer(t.Context(), &pieces{bytes.Clone(data), 1 + int(most), rand.New(rand.NewPCG(1, 1))}, table.Selection{}, 1<<20))
		if err != nil {
			return
		}
		if rawjson.Valid([]byte(got)) != nil {
			t.Fatalf("%q gives %q", data, got)
		}
		clean, _ := rawjson.Finite(data)
		if err := rawjson.Valid(clean); err != nil {
			t.Fatalf("%q is read, and is no JSON: %v", data, err)
		}
	})
}

// BenchmarkAnswer reads rows of a few hundred bytes as they come.
func BenchmarkAnswer(b *testing.B) {
	var data bytes.Buffer
	data.WriteString(`{"body":[`)
	for row := range 20_000 {
		if row > 0 {
			data.WriteByte(',')
		}
		fmt.Fprintf(&data, `{"_row_id":%d`, row)
		for col := range 20 {
			fmt.Fprintf(&data, `,"column_%d":"value %d"`, col, col*row%1000)
		}
		data.WriteByte('}')
	}
	data.WriteString(`]}`)
	b.SetBytes(int64(data.Len()))
	for b.Loop() {
		a := plane.NewAnswer(b.Context(), io.NopCloser(bytes.NewReader(data.Bytes())), table.Selection{}, 1<<20)
		for {
			if _, err := a.Next(); err != nil {
				if !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
				break
			}
		}
	}
}
