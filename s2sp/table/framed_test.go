package table

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestDetectFramed: documents that name each column once are tables, and documents that only look
// like them are not.
func TestDetectFramed(t *testing.T) {
	for data, want := range map[string]string{
		`{"columns":["a","b"],"rows":[[1,"x"],[2.0,{"c":[]}]],"row_count":2}`: `[{"a":1,"b":"x"},{"a":2.0,"b":{"c":[]}}]`,
		"{\"columns\" : [ \"a\" ] , \"data\" : [ [ null ] , [ NaN ] ] }":      `[{"a":null},{"a":null}]`,
		`{"columns":["a","b"],"index":[0,1],"data":[[1,2],[3,4]]}`:            `[{"a":1,"b":2},{"a":3,"b":4}]`,
		`{"columns":["a"],"index":["x","y"],"data":[[1],[2]]}`:                `[{"index":"x","a":1},{"index":"y","a":2}]`,
		`{"columns":["index"],"index":["x"],"data":[[1]]}`:                    `[{"index":1}]`,
		`{"a":{"0":1,"1":2},"b":{"0":"x","1":"y"}}`:                           `[{"a":1,"b":"x"},{"a":2,"b":"y"}]`,
		`{ "a" : { "0" : 1 } , "ä\"" : { "0" : [ 2 ] } }`:                     `[{"a":1,"ä\"":[ 2 ]}]`,
		`{"columns":["a","b"],"rows":[[1,2],[3]]}`:                            "",
		`{"columns":["a"],"rows":[[1,2]]}`:                                    "",
		`{"columns":["a","a"],"rows":[[1,2]]}`:                                "",
		`{"columns":[1],"rows":[[1]]}`:                                        "",
		`{"columns":["a"],"rows":[]}`:                                         "",
		`{"columns":["a"],"rows":[[1]],"data":[[2]]}`:                         "",
		`{"columns":["a"],"rows":[[1],2]}`:                                    "",
		`{"columns":["a"],"index":["x","y"],"data":[[1]]}`:                    "",
		`{"columns":["a"],"index":["x"],"data":[[1],[2]]}`:                    "",
		`{"a":{"0":1}}`:                                                 "",
		`{"a":{"0":1,"1":2},"b":{"0":1}}`:                               "",
		`{"a":{"0":1},"b":{"0":1,"1":2}}`:                               "",
		`{"a":{"0":1,"2":2},"b":{"0":1,"2":2}}`:                         "",
		`{"a":{"0":1},"b":{"x":1}}`:                                     "",
		`{"a":{"0":1},"b":3}`:                                           "",
		`{"columns":["a"],"rows":[[1]]} {"columns":["a"],"rows":[[1]]}`: "",
	} {
		got, err := Detect([]byte(data), DetectOptions{})
		switch {
		case want == "" && !errors.Is(err, ErrNotTable):
			t.Errorf("%s: %v", data, err)
		case want != "" && err != nil:
			t.Errorf("%s: %v", data, err)
		case want != "" && string(got.View().AppendJSON(nil)) != want:
			t.Errorf("%s:\n got %s\nwant %s", data, got.View().AppendJSON(nil), want)
		}
	}
}

// A small document cannot make a table of any size.
func TestFramedIsBounded(t *testing.T) {
	data := fmt.Sprintf(`{"columns":[%q],"rows":[[1]%s]}`, strings.Repeat("x", 1<<20), strings.Repeat(",[1]", 1000))
	if _, err := Detect([]byte(data), DetectOptions{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
}
