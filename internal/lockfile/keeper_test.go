package lockfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
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
	if _, err := k.Accept(t.Context(), Acceptance{Server: "files", Kind: catalog.KindTool, Name: "read_file", Hash: hashOf([]byte(changed))}); err != nil {
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
			_ = g.Allows(catalog.KindTool, "write_file")
			_ = k.Status()
		}
	}()
	if _, err := k.Accept(t.Context(), Acceptance{Server: "files", Kind: catalog.KindTool, Name: "read_file", Hash: hashOf([]byte(changed))}); err != nil {
		t.Fatal(err)
	}
	<-done
	if g.v.locked.Tools["read_file"].Hash == hashOf([]byte(changed)) {
		t.Error("a judgement of before has what was accepted after it")
	}
}
