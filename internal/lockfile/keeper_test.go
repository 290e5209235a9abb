package lockfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// TestMissingFileKeepsServers: the entry of a new server does not drop the entries of the others when
// the file was removed.
func TestMissingFileKeepsServers(t *testing.T) {
	path, mode := filepath.Join(t.TempDir(), Name), hold
	k, sink := keeper(path, &mode, nil)
	k.Update(files(read))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	k.Follow()
	mail := files(write)
	mail.Upstream, mail.Namespace = "mail", "mail"
	k.Update(mail)
	k.Update(files(strings.Replace(read, "Reads", "Sends", 1)))
	if got := sink.tools("files"); got != "" {
		t.Errorf("a changed definition is served: %q", got)
	}
	f, _, err := readFile(path)
	if err != nil || f.Servers["files"] == nil || f.Servers["mail"] == nil {
		t.Errorf("the file has %v, %v", f, err)
	}
}

// TestAcceptFromMemory: one difference of a server that could not be written is accepted, and the
// rest of the server stays as it was trusted.
func TestAcceptFromMemory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	path, mode := filepath.Join(dir, Name), hold
	k, sink := keeper(path, &mode, nil)
	k.Update(files(read, write))
	changed := strings.Replace(read, "Reads", "Sends", 1)
	k.Update(files(changed, write))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Accept(t.Context(), Acceptance{Server: "files", Kind: primitive.KindTool, Name: "read_file", Hash: hashOf([]byte(changed))}); err != nil {
		t.Fatal(err)
	}
	if got := sink.tools("files"); got != "read_file write_file" || len(k.Status().Servers[0].Differences) != 0 {
		t.Errorf("served: %q, %+v", got, k.Status())
	}
}

// TestAcceptWhileRead: an acceptance changes no entry that others read. Run it with -race.
func TestAcceptWhileRead(t *testing.T) {
	mode := hold
	k, _ := keeper("", &mode, nil)
	k.Update(files(read, write))
	changed := strings.Replace(read, "Reads", "Sends", 1)
	k.Update(files(changed, write))
	g := k.Gate("files")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			_ = g.Allows(primitive.KindTool, "write_file")
			_ = k.Status()
		}
	}()
	if _, err := k.Accept(t.Context(), Acceptance{Server: "files", Kind: primitive.KindTool, Name: "read_file", Hash: hashOf([]byte(changed))}); err != nil {
		t.Fatal(err)
	}
	<-done
	if g.v.locked.Tools["read_file"].Hash == hashOf([]byte(changed)) {
		t.Error("a judgement of before has what was accepted after it")
	}
}

// TestModeFromOff: an agent that runs is judged as soon as its mode is set, and no longer once it is
// removed.
func TestModeFromOff(t *testing.T) {
	path, mode := filepath.Join(t.TempDir(), Name), off
	k, sink := keeper(path, &mode, nil)
	l := files(read)
	l.Found = true
	k.Update(l)
	if _, err := os.Stat(path); err == nil || len(k.Status().Servers) != 0 {
		t.Fatalf("mode off: %v, %+v", err, k.Status())
	}
	mode = hold
	if k.Gate("files").Open() == nil {
		t.Error("it is open before it is judged")
	}
	k.Again()
	if err := k.Gate("files").Open(); err != nil || sink.tools("files") != "read_file" {
		t.Errorf("it waits for the next listing: %v, %q", err, sink.tools("files"))
	}
	if f, _, err := readFile(path); err != nil || f.Servers["files"] == nil {
		t.Errorf("the file has %v, %v", f, err)
	}
	l = files(strings.Replace(read, "Reads", "Sends", 1))
	l.Found = true
	k.Update(l)
	if got := sink.tools("files"); got != "" || k.Summary("files").Held != 1 {
		t.Errorf("a changed definition is served: %q, %+v", got, k.Summary("files"))
	}
	mode = off
	k.Again()
	if got := sink.tools("files"); got != "read_file" || len(k.Status().Servers) != 0 || k.Summary("files") != (Summary{}) {
		t.Errorf("in mode off again: %q, %+v, %+v", got, k.Status(), k.Summary("files"))
	}
	k.Remove("files")
	mode = hold
	k.Again()
	if k.Gate("files").Open() == nil {
		t.Error("a server that is gone is open")
	}
}

// TestBrokenWhileRunning: a file that breaks while weir runs leaves what was trusted in force, and a
// file that is taken away mends it.
func TestBrokenWhileRunning(t *testing.T) {
	path, mode := filepath.Join(t.TempDir(), Name), hold
	k, sink := keeper(path, &mode, nil)
	k.Update(files(read))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mail := files(write)
	mail.Upstream, mail.Namespace = "mail", "mail"
	for _, mend := range []func() error{
		func() error { return os.WriteFile(path, good, 0o644) },
		func() error { return os.Remove(path) },
	} {
		if err := os.WriteFile(path, []byte("<<<<<<< HEAD\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		k.Follow()
		k.Update(mail)
		if got := sink.tools("mail"); got != "" || k.Status().Error == "" {
			t.Errorf("a server that no lock knows: %q, %q", got, k.Status().Error)
		}
		k.Update(files(read))
		if got := sink.tools("files"); got != "read_file" {
			t.Errorf("a trusted server: %q", got)
		}
		if err := mend(); err != nil {
			t.Fatal(err)
		}
		k.Follow()
		if got := sink.tools("mail"); got != "write_file" || k.Status().Error != "" {
			t.Errorf("mended: %q, %q", got, k.Status().Error)
		}
		k.Remove("mail")
		k.mu.Lock()
		delete(k.file.Servers, "mail")
		k.mu.Unlock()
	}
}

// TestServersThatGoAreForgotten: servers that come and go, such as agents and Computers, leave no
// record, and one that comes back while it goes has one.
func TestServersThatGoAreForgotten(t *testing.T) {
	for _, mode := range []Mode{off, hold} {
		k, sink := keeper(filepath.Join(t.TempDir(), Name), &mode, nil)
		for i := range 100 {
			l := files(read)
			l.Upstream = fmt.Sprint("agent", i)
			if i == 0 || mode == off {
				k.Update(l)
			}
			_ = k.Gate(l.Upstream).Open()
			k.Remove(l.Upstream)
		}
		if n := len(k.servers); n != 0 {
			t.Errorf("mode %s: %d records are kept", mode, n)
		}
		var both sync.WaitGroup
		for range 100 {
			both.Go(func() { k.Remove("files") })
			both.Go(func() { k.Update(files(read)) })
		}
		both.Wait()
		k.Update(files(read))
		if known := k.Summary("files"); sink.tools("files") != "read_file" || known != (Summary{}) || mode == hold && k.Gate("files").Open() != nil {
			t.Errorf("mode %s: %q, %+v", mode, sink.tools("files"), known)
		}
	}
}
