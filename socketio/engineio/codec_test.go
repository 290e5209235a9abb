package engineio

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

func TestFrame(t *testing.T) {
	tests := []struct {
		name  string
		frame Frame
		head  string // of the wire, in hexadecimal
		size  int    // of the payload
	}{
		{"empty text", Text(), "8101" + "34", 1},
		{"parts", Text([]byte("a"), nil, []byte("b")), "8103" + "346162", 3},
		{"binary", Binary([]byte{1, 2}), "8202" + "0102", 2},
		{"nothing binary", Binary(nil), "8200", 0},
		{"125 bytes", Text(repeat("x", 124)), "817d34", 125},
		{"126 bytes", Text(repeat("x", 125)), "817e007e34", 126},
		{"65535 bytes", Binary(repeat("x", 65535)), "827effff", 65535},
		{"65536 bytes", Binary(repeat("x", 65536)), "827f0000000000010000", 65536},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := hex.EncodeToString(test.frame.wire[:min(len(test.head)/2, len(test.frame.wire))]); got != test.head {
				t.Errorf("wire begins with %s, want %s", got, test.head)
			}
			if got := len(test.frame.packet()); got != test.size {
				t.Errorf("payload of %d bytes, want %d", got, test.size)
			}
			plain := append([]byte(nil), test.frame.packet()...)
			masked := appendMasked(nil, test.frame)
			head := len(masked) - test.size
			if masked[1]&maskBit == 0 || head != int(test.frame.head)+4 {
				t.Fatalf("masked head % x", masked[:head])
			}
			payload := masked[head:]
			for i := range payload {
				payload[i] ^= masked[head-4+i%4]
			}
			if !bytes.Equal(payload, plain) {
				t.Error("unmasking does not give the payload back")
			}
		})
	}
}

func TestFrameData(t *testing.T) {
	if got := (Frame{}).Data(); got != nil {
		t.Errorf("no frame: %q", got)
	}
	if f := Text([]byte("hi")); string(f.Data()) != "hi" || f.IsBinary() {
		t.Errorf("text: %q", f.Data())
	}
	if f := Binary([]byte("hi")); string(f.Data()) != "hi" || !f.IsBinary() {
		t.Errorf("binary: %q", f.Data())
	}
}

func TestDecodePayload(t *testing.T) {
	tests := []struct {
		name, body string
		want       []packet
		bad        bool
	}{
		{"one", "4hello", []packet{{kind: '4', data: []byte("hello")}}, false},
		{"many", "4a\x1e2\x1e1", []packet{{kind: '4', data: []byte("a")}, {kind: '2'}, {kind: '1'}}, false},
		{"binary", "bAQID", []packet{{kind: '4', binary: true, data: []byte{1, 2, 3}}}, false},
		{"binary with padding", "bAQIDBA==", []packet{{kind: '4', binary: true, data: []byte{1, 2, 3, 4}}}, false},
		{"binary without its padding", "bAQIDBA", []packet{{kind: '4', binary: true, data: []byte{1, 2, 3, 4}}}, false},
		{"nothing", "", nil, true},
		{"an empty packet", "4a\x1e", nil, true},
		{"an unknown type", "4a\x1e7", nil, true},
		{"letters", "abc", nil, true},
		{"no base64", "b!!!!", nil, true},
		{"no UTF-8", "4\xff", nil, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := decodePayload([]byte(test.body), nil)
			if test.bad != (err != nil) || err != nil && !errors.Is(err, errPacket) {
				t.Fatalf("error %v", err)
			}
			if len(got) != len(test.want) {
				t.Fatalf("%d packets, want %d", len(got), len(test.want))
			}
			for i := range got {
				if got[i].kind != test.want[i].kind || got[i].binary != test.want[i].binary || !bytes.Equal(got[i].data, test.want[i].data) {
					t.Errorf("packet %d: %+v, want %+v", i, got[i], test.want[i])
				}
			}
		})
	}
}

// FuzzPayload decodes anything, and what can be decoded comes out the same after being encoded again.
func FuzzPayload(f *testing.F) {
	for _, seed := range []string{"4hello", "4a\x1ebAQID\x1e2", "b", "4\x1e4", "0{}", "\x1e", "4\xff", "bAQIDBA=="} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		packets, err := decodePayload(body, nil)
		if err != nil {
			return
		}
		var again []byte
		for _, p := range packets {
			switch {
			case p.binary:
				again = appendPacket(again, Binary(p.data))
			case p.kind == packetMessage:
				again = appendPacket(again, Text(p.data))
			default:
				again = appendPacket(again, controlFrame(p.kind, string(p.data)))
			}
		}
		second, err := decodePayload(again, nil)
		if err != nil || len(second) != len(packets) {
			t.Fatalf("%q became %q: %d packets, then %d, %v", body, again, len(packets), len(second), err)
		}
		for i := range packets {
			if packets[i].kind != second[i].kind || packets[i].binary != second[i].binary || !bytes.Equal(packets[i].data, second[i].data) {
				t.Fatalf("packet %d of %q: %+v became %+v", i, body, packets[i], second[i])
			}
		}
	})
}

func FuzzMask(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4}, []byte("a longer text than eight bytes"))
	f.Fuzz(func(t *testing.T, keyBytes, data []byte) {
		var key [4]byte
		copy(key[:], keyBytes)
		masked := bytes.Clone(data)
		maskBytes(key, masked)
		for i := range data {
			if masked[i] != data[i]^key[i%4] {
				t.Fatalf("byte %d", i)
			}
		}
	})
}

func TestTakePayloadKeepsUnitsTogether(t *testing.T) {
	var q queue
	put := func(n int, size int) {
		var unit []Frame
		bytes := 0
		for range n {
			unit = append(unit, Text(repeat("x", size)))
			bytes += unit[len(unit)-1].size()
		}
		q.add(unit, bytes)
	}
	packets := func() int {
		body, frames, err := q.takePayload(100, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.sent(frames, len(body))
		return bytes.Count(body, []byte{separator}) + 1
	}
	put(10, 1)
	put(5, 1)
	put(2, 1)
	put(40, 1)
	put(1, 90)
	put(1, 200)
	put(1, 1)
	// 10+5 fit, 2 more do not; a unit of 40 fits nowhere and is split; large ones go alone.
	for i, want := range []int{15, 2, 16, 16, 8, 1, 1, 1} {
		if got := packets(); got != want {
			t.Errorf("poll %d has %d packets, want %d", i, got, want)
		}
	}
	if q.frames != 0 || q.bytes != 0 || q.items != nil {
		t.Errorf("left: %d frames, %d bytes, %v", q.frames, q.bytes, q.items)
	}
}
