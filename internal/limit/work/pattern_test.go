package work

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"
)

// worst is a pattern that keeps hundreds of threads alive at every byte.
const worst = `(?:a?){300}b`

func TestInstructions(t *testing.T) {
	for _, expr := range []string{
		``, `a`, `abc`, `^abc$`, `a|b|cd`, `[a-z]+`, `(?:a*)*`, `(a)(b)`, `a{3}`, `a{2,}`, `a{0,7}`, `(?:ab|c){2,5}`, `(?i)Hello\b.*$`, worst,
		`^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,}$`, `(?:a{10}){10}`, `[^\p{L}\p{N}]{1,255}`, `(?:a?){0,20}`, `(?s).{1,1000}`, `x*?y+?z??`, `(?:){5}`,
	} {
		parsed, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		got, err := Instructions(expr)
		if exact := int64(len(prog.Inst)); err != nil || got < exact || got > 2*exact {
			t.Errorf("%s: %d instructions, compiled %d (%v)", expr, got, exact, err)
		}
	}
	for expr, large := range map[string]bool{
		`((a{10}){10}){10}`: false, strings.Repeat(`a{1000}`, 9): false, strings.Repeat(`a{1000}`, 11): true,
		strings.Repeat(`(?:(?:a{10}){10}){10}`, 500): true, strings.Repeat("x", 20_000): true,
	} {
		_, err := Instructions(expr)
		var e *TooLargeError
		if errors.As(err, &e) != large || !large && err != nil {
			t.Errorf("%.60s: %v", expr, err)
		}
	}
	var se *syntax.Error
	if _, err := Compile(`(`); !errors.As(err, &se) {
		t.Errorf("%v", err)
	}
}

// TestFind: with a Meter the answers are those of package regexp, for short texts
// and for those that are handed over character by character.
func TestFind(t *testing.T) {
	long := strings.Repeat("añb ", 30_000)
	for _, expr := range []string{`a`, `añ`, `^a`, `^b`, `b $`, `\bñ`, `z`, `é|b`, `(?i)AÑ`, `zz.*`, `a.*\bb $`, `^(?:añb )+$`, `^(?:añb )+x`, ``, `\x{fffd}`, `^abc$`, `^abc`} {
		p, err := Compile(expr)
		if err != nil {
			t.Fatal(err)
		}
		re := regexp.MustCompile(expr)
		for _, s := range []string{"", "a", "ñb", "abc", "xabc", "abcd", "añb añb ", "añb añb x", "xañb", "\xc3", "\xff", "\xffa\xff", long, long + "x"} {
			if len(s) > 100 && p.instructions < 4 {
				continue // in one piece as well
			}
			want := -1
			if at := re.FindStringIndex(s); at != nil {
				want = at[0]
			}
			m := NewMeter(t.Context(), Options{})
			if got, err := p.Find(m, s); err != nil || got != want {
				t.Errorf("%q in %.12q (%d bytes): %d, %v, want %d", expr, s, len(s), got, err, want)
			}
			if got, err := p.read(m, s); err != nil || got != want {
				t.Errorf("%q in %.12q (%d bytes), character by character: %d, %v, want %d", expr, s, len(s), got, err, want)
			}
			if got, err := p.Match(nil, s); err != nil || got != (want >= 0) {
				t.Errorf("%q in %.12q, not counted: %v, %v", expr, s, got, err)
			}
		}
	}
}

func TestFindIsBounded(t *testing.T) {
	p, err := Compile(worst)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("a", 4<<20) // half a minute without a bound
	m := NewMeter(t.Context(), Options{Limit: 5_000_000})
	if at, err := p.Find(m, text); !errors.Is(err, ErrLimit) || at != -1 {
		t.Errorf("%d, %v", at, err)
	}
	if m.spent > 5_200_000 {
		t.Errorf("%d units were spent", m.spent)
	}
	if _, err := p.Find(m, "b"); !errors.Is(err, ErrLimit) || !errors.Is(m.Err(), ErrLimit) {
		t.Errorf("afterwards: %v, %v", err, m.Err())
	}
	// Half of the text is no text: $ must not match where the work ended.
	end, err := Compile(`a$`)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := end.Find(NewMeter(t.Context(), Options{Limit: 5_000_000}), text); !errors.Is(err, ErrLimit) || at != -1 {
		t.Errorf("%d, %v", at, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Find(NewMeter(ctx, Options{}), text); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// FuzzFind compares with package regexp.
func FuzzFind(f *testing.F) {
	f.Add(`^a|b$`, "xaab")
	f.Add(`(?i)\bé+`, "É é")
	f.Fuzz(func(t *testing.T, expr, text string) {
		p, err := Compile(expr)
		if err != nil {
			return
		}
		want := -1
		if at := regexp.MustCompile(expr).FindStringIndex(text); at != nil {
			want = at[0]
		}
		if got, err := p.read(nil, text); err != nil || got != want {
			t.Errorf("character by character %d, %v, want %d", got, err, want)
		}
		if got, err := p.Find(nil, text); err != nil || got != want {
			t.Errorf("%d, %v, want %d", got, err, want)
		}
	})
}

func ExamplePattern_Find() {
	p, err := Compile(`(?:a?){300}b`)
	if err != nil {
		fmt.Println(err)
		return
	}
	m := NewMeter(context.Background(), Options{Limit: 10_000_000})
	defer m.Close()
	fmt.Println(p.Find(m, "aab"))
	fmt.Println(p.Find(m, strings.Repeat("a", 10_000_000)))
	// Output:
	// 0 <nil>
	// -1 too much to compute
}

// A short text costs what it costs without a Meter.
func BenchmarkFind(b *testing.B) {
	const expr, text = `^[a-z0-9-]{1,63}$`, "somebody-s-repository"
	p, err := Compile(expr)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("counted", func(b *testing.B) {
		m := NewMeter(b.Context(), Options{})
		for b.Loop() {
			if at, err := p.Find(m, text); at != 0 || err != nil {
				b.Fatal(at, err)
			}
		}
	})
	b.Run("baseline", func(b *testing.B) {
		re := regexp.MustCompile(expr)
		for b.Loop() {
			if re.FindStringIndex(text) == nil {
				b.Fatal("no match")
			}
		}
	})
}

func TestCount(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		n             int
		exact         bool
	}{
		{"late", "late, late and LATE", 2, true},
		{"(?i)late", "late, late and LATE", 3, true},
		{"^late", "late, late", 1, true},
		{"x", "late", 0, true},
		{"[a-c]x", strings.Repeat("ax ", 200_000), 1, false},
	} {
		p, err := Compile(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if n, exact, err := p.Count(nil, tt.text); n != tt.n || exact != tt.exact || err != nil {
			t.Errorf("%s: %d, %t, %v", tt.pattern, n, exact, err)
		}
	}
}
