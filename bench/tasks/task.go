package main

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed tasks/*.txt
var files embed.FS

// task is one task and the calls that it takes in each way. Its file has a title, the names of its
// servers, the words of a person, and a section for each way:
//
//	# Late orders by customer
//	servers: sqlite files
//	Which customers have late orders?
//
//	-- single --
//	browse run sql query
//	execute sqlite:read_query {"query":"…"}
//	= a text that the answer must contain
//	& ! execute …
//
// & says that the call needs no answer of the one before, ! that it fails. A line that starts with a
// tab continues the one before.
type task struct {
	name    string
	title   string
	servers []string
	ways    map[string][]call
}

// call is one call of an agent.
type call struct {
	line   int
	joined bool // may share a turn with the call before it
	fails  bool
	verb   string
	target string // a tool as server:tool, or a handle
	text   string // the rest: a query, arguments, a selector, a program
	wants  []string
}

// takesTarget are the verbs whose first word is a tool or a handle.
var takesTarget = map[string]bool{"call": true, "execute": true, "view": true, "browse": false, "run": false, "resume": false}

// readTasks reads the tasks whose servers are all there.
func readTasks(servers func(name string) bool) ([]*task, error) {
	names, err := fs.Glob(files, "tasks/*.txt")
	if err != nil {
		return nil, err
	}
	var all []*task
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		t, err := parseTask(strings.TrimSuffix(path.Base(name), ".txt"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !slices.ContainsFunc(t.servers, func(s string) bool { return !servers(s) }) {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no task has all of its servers")
	}
	return all, nil
}

func parseTask(name, text string) (*task, error) {
	t := &task{name: name, ways: map[string][]call{}}
	way := ""
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		calls := t.ways[way]
		section, isSection := strings.CutPrefix(line, "-- ")
		switch {
		case isSection:
			way = strings.TrimSuffix(section, " --")
		case way == "":
			if title, ok := strings.CutPrefix(line, "# "); ok {
				t.title = title
			} else if servers, ok := strings.CutPrefix(line, "servers: "); ok {
				t.servers = strings.Fields(servers)
			}
		case line == "":
		case (line[0] == '\t' || line[0] == '=') && len(calls) == 0:
			return nil, fmt.Errorf("line %d continues no call", number)
		case line[0] == '\t':
			last := &calls[len(calls)-1]
			last.text = strings.TrimPrefix(last.text+"\n"+line[1:], "\n")
		case line[0] == '=':
			last := &calls[len(calls)-1]
			last.wants = append(last.wants, strings.TrimPrefix(line, "= "))
		default:
			c, err := parseCall(number, line)
			if err != nil {
				return nil, err
			}
			t.ways[way] = append(calls, c)
		}
	}
	if t.title == "" || len(t.servers) == 0 {
		return nil, fmt.Errorf("there is no title, or no servers")
	}
	if t.ways["before"] == nil {
		t.ways["before"] = t.ways["single"]
	}
	for _, w := range ways {
		if len(t.ways[w.section]) == 0 {
			return nil, fmt.Errorf("there are no calls of %q", w.section)
		}
	}
	return t, nil
}

func parseCall(number int, line string) (call, error) {
	c := call{line: number}
	line, c.joined = strings.CutPrefix(line, "& ")
	line, c.fails = strings.CutPrefix(line, "! ")
	c.verb, c.text, _ = strings.Cut(line, " ")
	has, known := takesTarget[c.verb]
	if !known {
		return c, fmt.Errorf("line %d: there is no verb %q", number, c.verb)
	}
	if has {
		c.target, c.text, _ = strings.Cut(c.text, " ")
	}
	return c, nil
}
