//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A peer is a Socket.IO client that does as little as one can.
type peer struct {
	conn net.Conn
	in   *bufio.Reader
}

const handshake = "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// connect opens a WebSocket and joins a namespace, "" for the main one.
func connect(address, namespace string) (*peer, error) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	p := &peer{conn: conn, in: bufio.NewReaderSize(conn, 4096)}
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	defer func() { _ = conn.SetDeadline(time.Time{}) }()
	if _, err := conn.Write([]byte(handshake)); err != nil {
		return nil, err
	}
	for line := ""; line != "\r\n"; {
		if line, err = p.in.ReadString('\n'); err != nil {
			return nil, fmt.Errorf("handshake: %w", err)
		}
	}
	join := "40"
	if namespace != "" {
		join += namespace + ","
	}
	for _, want := range []string{"0{", join + "{"} {
		if want != "0{" {
			if _, err := conn.Write(masked(join)); err != nil {
				return nil, err
			}
		}
		frame, err := p.read()
		if err != nil || !bytes.HasPrefix(frame, []byte(want)) {
			return nil, fmt.Errorf("handshake: %w: got %q, want %s", errors.Join(err, errUnexpected), frame, want)
		}
	}
	return p, nil
}

var errUnexpected = errors.New("unexpected frame")

// masked is a client's text frame; the mask is zero, which servers cannot tell from a random one that happens to be.
func masked(text string) []byte {
	frame := []byte{0x81}
	if len(text) < 126 {
		frame = append(frame, 0x80|byte(len(text)))
	} else {
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(len(text)))
	}
	return append(append(frame, 0, 0, 0, 0), text...)
}

// read returns the next frame's payload, valid until the next read.
func (p *peer) read() ([]byte, error) {
	head, err := p.in.Peek(2)
	if err != nil {
		return nil, err
	}
	size, skip := int(head[1]&0x7f), 2
	switch size {
	case 126:
		if head, err = p.in.Peek(4); err != nil {
			return nil, err
		}
		size, skip = int(binary.BigEndian.Uint16(head[2:])), 4
	case 127:
		return nil, errUnexpected
	}
	frame, err := p.in.Peek(skip + size)
	if err != nil {
		return nil, err
	}
	_, err = p.in.Discard(skip + size)
	return frame[skip:], err
}

// connectAll opens many connections to a namespace, some at a time.
func connectAll(ctx context.Context, address, namespace string, n int) ([]*peer, error) {
	peers := make([]*peer, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if errs[i] = ctx.Err(); errs[i] == nil {
				peers[i], errs[i] = connect(address, namespace)
			}
		})
	}
	wg.Wait()
	return peers, errors.Join(errs...)
}

func closeAll(peers []*peer) {
	for _, p := range peers {
		if p != nil {
			_ = p.conn.Close()
		}
	}
}

const text = `"The quick brown fox jumps over the lazy dog",{"n":1,"ok":true}`

var ping = []byte("2")

// measureEcho keeps each connection's messages in flight: an ack that comes lets the next message go.
func measureEcho(ctx context.Context, s *server, connections, each int, length time.Duration) (float64, error) {
	peers, err := connectAll(ctx, s.address, "", connections)
	if err != nil {
		return 0, err
	}
	var acks atomic.Int64
	var wg sync.WaitGroup
	message := masked(`427["echo",` + text + `]`)
	for _, p := range peers {
		wg.Go(func() {
			burst := bytes.Repeat(message, each)
			if _, err := p.conn.Write(burst); err != nil {
				return
			}
			for {
				got, pings := 0, 0
				for first := true; first || p.in.Buffered() > 0; first = false {
					frame, err := p.read()
					if err != nil {
						return
					}
					if bytes.Equal(frame, ping) {
						pings++
					} else {
						got++
					}
				}
				acks.Add(int64(got))
				answer := burst[:min(got, each)*len(message)]
				if pings > 0 {
					answer = append(bytes.Clone(answer), masked("3")...)
				}
				if _, err := p.conn.Write(answer); err != nil {
					return
				}
			}
		})
	}
	defer wg.Wait()
	defer closeAll(peers)
	return perCPU(ctx, s, &acks, length)
}

// perCPU counts for a while, after a moment to warm up, and divides by the CPU time that the server used.
func perCPU(ctx context.Context, s *server, counter *atomic.Int64, length time.Duration) (float64, error) {
	if err := wait(ctx, time.Second); err != nil {
		return 0, err
	}
	before, err := s.cpu()
	if err != nil {
		return 0, err
	}
	start, began := counter.Load(), time.Now()
	if err := wait(ctx, length); err != nil {
		return 0, err
	}
	count, took := counter.Load()-start, time.Since(began)
	after, err := s.cpu()
	if err != nil {
		return 0, err
	}
	used := (after - before).Seconds()
	fmt.Printf("  %.0f messages/s on %.2f core\n", float64(count)/took.Seconds(), used/took.Seconds())
	return float64(count) / used, nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// measureBroadcast keeps some broadcasts in flight to a room of n.
func measureBroadcast(ctx context.Context, s *server, n, inFlight int, length time.Duration) (float64, error) {
	peers, err := connectAll(ctx, s.address, "", n+1)
	defer closeAll(peers)
	if err != nil {
		return 0, err
	}
	sender, room := peers[n], peers[:n]
	for _, p := range room {
		if _, err := p.conn.Write(masked(`421["join",1]`)); err != nil {
			return 0, err
		}
		if _, err := p.read(); err != nil {
			return 0, err
		}
	}
	var deliveries atomic.Int64
	news := masked(`42["broadcast",` + text + `]`)
	var wg sync.WaitGroup
	for _, p := range room {
		wg.Go(func() { p.listen(&deliveries, int64(n), sender.conn, news) })
	}
	for range inFlight {
		if _, err := sender.conn.Write(news); err != nil {
			return 0, err
		}
	}
	defer wg.Wait()
	defer closeAll(peers)
	if err := wait(ctx, time.Second); err != nil {
		return 0, err
	}
	before, err := s.cpu()
	if err != nil {
		return 0, err
	}
	start, began := deliveries.Load(), time.Now()
	if err := wait(ctx, length); err != nil {
		return 0, err
	}
	count, took := float64(deliveries.Load()-start), time.Since(began).Seconds()
	after, err := s.cpu()
	fmt.Printf("  %.0f deliveries/s on %.2f core\n", count/took, (after-before).Seconds()/took)
	return count / took, err
}

// listen counts the deliveries, and lets the next broadcast go for each n.
func (p *peer) listen(deliveries *atomic.Int64, n int64, sender io.Writer, news []byte) {
	for {
		frame, err := p.read()
		if err != nil {
			return
		}
		if bytes.Equal(frame, ping) {
			_, err = p.conn.Write(masked("3"))
		} else if deliveries.Add(1)%n == 0 {
			_, err = sender.Write(news)
		}
		if err != nil {
			return
		}
	}
}

// measureMemory looks at the memory that n idle connections to a namespace add, after the server has collected its garbage:
// how much of that lies around at a moment says more about when one looks than about the server.
func measureMemory(ctx context.Context, s *server, namespace string, n int) (float64, error) {
	few, err := connectAll(ctx, s.address, namespace, 50) // So that code and pools are there.
	defer closeAll(few)
	if err != nil {
		return 0, err
	}
	before, err := s.settled(ctx)
	if err != nil {
		return 0, err
	}
	peers, err := connectAll(ctx, s.address, namespace, n)
	defer closeAll(peers)
	if err != nil {
		return 0, err
	}
	uncollected, err := s.private()
	if err != nil {
		return 0, err
	}
	after, err := s.settled(ctx)
	fmt.Printf("  %.0f bytes/connection before the garbage is collected\n", float64(uncollected-before)/float64(n))
	return float64(after-before) / float64(n), err
}
