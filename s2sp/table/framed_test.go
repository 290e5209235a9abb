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
		`{"columns":["a","b"],"rows":[[1,"x"],[2.0,{"c":[]}]],"row_count":2}`:             `[{"a":1,"b":"x"},{"a":2.0,"b":{"c":[]}}]`,
		"{\"columns\" : [ \"a\" ] , \"data\" : [ [ null ] , [ NaN ] ] }":                  `[{"a":null},{"a":null}]`,
		`{"columns":["a","b"],"index":[0,1],"data":[[1,2],[3,4]]}`:                        `[{"a":1,"b":2},{"a":3,"b":4}]`,
		`{"columns":["a"],"index":["x","y"],"data":[[1],[2]]}`:                            `[{"index":"x","a":1},{"index":"y","a":2}]`,
		`{"columns":["index"],"index":["x"],"data":[[1]]}`:                                `[{"index":1}]`,
		`{"a":{"0":1,"1":2},"b":{"0":"x","1":"y"}}`:                                       `[{"a":1,"b":"x"},{"a":2,"b":"y"}]`,
		`{ "a" : { "0" : 1 } , "ä\"" : { "0" : [ 2 ] } }`:                                 `[{"a":1,"ä\"":[ 2 ]}]`,
		`{"header":["a","b"],"data":[[1,"x"]]}`:                                           `[{"a":1,"b":"x"}]`,
		`{"fields":[{"name":"a","type":"int"},{"name":"b"}],"records":[[1,2]],"total":1}`: `[{"a":1,"b":2}]`,
		`{"headers":["a"],"values":[[1],[2]]}`:                                            `[{"a":1},{"a":2}]`,
		`[["a","b"],[1,"x"],[12345678901234567890,null]]`:                                 `[{"a":1,"b":"x"},{"a":12345678901234567890,"b":null}]`,
		` [ ["id","ok"] , [ "7" , true ] ] `:                                              `[{"id":"7","ok":true}]`,
		`{"result":[["a","b"],[1,"x"]]}`:                                                  `[{"a":1,"b":"x"}]`,
		`[["a","b"],["c","d"],["e","f"]]`:                                                 "", // pairs of strings
		`[["a","b"],["c",null]]`:                                                          "",
		`[[1,2],[3,4]]`:                                                                   "", // a matrix
		`[["a"],[1],[2]]`:                                                                 "", // groups
		`[["a","b"]]`:                                                                     "",
		`[["a","a"],[1,2]]`:                                                               "",
		`[["a",""],[1,2]]`:                                                                "",
		`[["a","b"],[1]]`:                                                                 "",
		`[["a","b"],[1,2,3]]`:                                                             "",
		`[["a","b"],{"a":1}]`:                                                             "",
		`[["a","b"],["x",1],["y","2"]]`:                                                   "", // a column of both
		`[["a","b"],[{"c":1},"x"]]`:                                                       "",
		`[["a","b"],[1,2]] [["a","b"],[1,2]]`:                                             "",
		`[["Berlin",52.5],["Paris",48.9]]`:                                                "",
		`{"columns":["a"],"header":["a"],"rows":[[1]]}`:                                   "",
		`{"fields":[{"label":"a"}],"data":[[1]]}`:                                         "",
		`{"columns":["a","b"],"rows":[[1,2],[3]]}`:                                        "",
		`{"columns":["a"],"rows":[[1,2]]}`:                                                "",
		`{"columns":["a","a"],"rows":[[1,2]]}`:                                            "",
		`{"columns":[1],"rows":[[1]]}`:                                                    "",
		`{"columns":["a"],"rows":[]}`:                                                     "",
		`{"columns":["a"],"rows":[[1]],"data":[[2]]}`:                                     "",
		`{"columns":["a"],"rows":[[1],2]}`:                                                "",
		`{"columns":["a"],"index":["x","y"],"data":[[1]]}`:                                "",
		`{"columns":["a"],"index":["x"],"data":[[1],[2]]}`:                                "",
		`{"a":{"0":1}}`:                                                                   "",
		`{"a":{"0":1,"1":2},"b":{"0":1}}`:                                                 "",
		`{"a":{"0":1},"b":{"0":1,"1":2}}`:                                                 "",
		`{"a":{"0":1,"2":2},"b":{"0":1,"2":2}}`:                                           "",
		`{"a":{"0":1},"b":{"x":1}}`:                                                       "",
		`{"a":{"0":1},"b":3}`:                                                             "",
		`{"columns":["a"],"rows":[[1]]} {"columns":["a"],"rows":[[1]]}`:                   "",
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

// TestHeadedAtPath: where the configuration names a place, an array of arrays there is a table with a line of names,
// whatever its values are, and rows may end early.
func TestHeadedAtPath(t *testing.T) {
	opts := DetectOptions{Paths: []string{"values"}}
	got, err := Detect([]byte(`{"range":"A1:C3","values":[["name","city"],["Ann","Bern"],["Bob"],[]]}`), opts)
	if err != nil || string(got.View().AppendJSON(nil)) != `[{"name":"Ann","city":"Bern"},{"name":"Bob"},{}]` {
		t.Errorf("%v, %s", err, got.View().AppendJSON(nil))
	}
	for _, data := range []string{`{"a":1,"values":[["name"],["x","y"]]}`, `{"a":1,"values":[["name"],["x"],3]}`, `{"a":1,"values":[[1],["x"]]}`} {
		if _, err := Detect([]byte(data), opts); !errors.Is(err, ErrNotTable) {
			t.Errorf("%s: %v", data, err)
		}
	}
}
