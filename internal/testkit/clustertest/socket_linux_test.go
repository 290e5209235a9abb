package clustertest

import (
	"net"
	"os"
	"testing"
)

// TestInode: the number of a socket is the same by both ways, and belongs to its process.
func TestInode(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	inode := readInode(near.LocalAddr(), near.RemoteAddr())
	if inode == "" || !owns(os.Getpid(), inode) {
		t.Fatalf("%q is no socket of this process", inode)
	}
	if asked := askInode(near.LocalAddr(), near.RemoteAddr()); asked != inode && asked != "" { // some sandboxes say nothing
		t.Errorf("%s by the table, %s by a question", inode, asked)
	} else {
		t.Logf("%q", asked)
	}
}
