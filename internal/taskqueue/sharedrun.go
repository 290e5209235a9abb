package taskqueue

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// loop renews the holder's document, claims tasks while places are free, and looks for tasks whose
// holder is gone.
func (s *Shared) loop() {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	s.renew()
	s.reap()
	for {
		s.claimAll()
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		case <-tick.C:
			s.renew()
			s.logs()
			s.reap()
		}
	}
}

// renew writes the document that says that this replica lives. The fence counts from the moment in
// which the write was sent.
func (s *Shared) renew() {
	s.mu.Lock()
	inc, rev := s.inc, s.rev
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, renewEvery)
	defer cancel()
	sent := time.Now()
	now, err := s.o.Docs.Set(ctx, s.holder(inc), []byte(`{"v":1}`), rev, holderTTL)
	if err != nil {
		s.log.Warn("the store of the shared tasks does not answer", "group", s.o.Group, "err", err)
		// The document may have been written. A document that is gone, or another one's, fences.
		doc, failed := s.o.Docs.Get(ctx, s.holder(inc))
		s.mu.Lock()
		if failed == nil && s.inc == inc {
			s.rev = doc.Rev
		}
		s.mu.Unlock()
		if failed == nil && doc.Rev == 0 && rev != 0 {
			s.fenced()
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inc == inc && s.ctx.Err() == nil { // also while Close waits for the running tasks
		s.rev = now
		s.fence.Reset(max(0, fenceAfter-time.Since(sent)))
	}
}

// fenced ends the tasks of this replica, because others take it for gone, and begins a new
// incarnation.
func (s *Shared) fenced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) > 0 {
		s.log.Error("the tasks of this replica are ended, because the store did not answer for too long", "group", s.o.Group, "tasks", len(s.held))
	}
	for _, h := range s.held {
		h.lost = true
		if h.cancel != nil {
			h.cancel(ErrInterrupted)
		}
	}
	s.inc, s.rev = rand.Text()[:8], 0
	if s.ctx.Err() == nil {
		s.fence.Reset(fenceAfter)
	}
}

// logs writes the log tails of running tasks that have grown, so that other replicas can tell them.
func (s *Shared) logs() {
	s.mu.Lock()
	grown := map[string]*held{}
	for id, h := range s.held {
		if it := s.seen[id]; it != nil && !h.lost {
			if _, seq, _, _ := h.log.read(); seq > it.rec.LogSeq {
				grown[id] = h
			}
		}
	}
	s.mu.Unlock()
	for id, h := range grown {
		_, _, _ = s.change(s.ctx, id, func(rec *sharedRecord) bool {
			return rec.heldBy(h.inc) && h.tell(rec)
		})
	}
}

// reap ends the tasks whose holder is gone, or puts them back.
func (s *Shared) reap() {
	s.mu.Lock()
	inc := s.inc
	orphans := map[string][]string{}
	for id, it := range s.seen {
		if it.rec.State == Running && s.held[id] == nil {
			orphans[it.rec.Holder] = append(orphans[it.rec.Holder], id)
		}
	}
	s.mu.Unlock()
	for holder, ids := range orphans {
		if holder == inc { // claimed by a write of which this replica has not heard: it has not begun
			for _, id := range ids {
				s.handBack(id, holder, false)
			}
			continue
		}
		doc, err := s.o.Docs.Get(s.ctx, s.holder(holder))
		if err != nil || doc.Rev != 0 {
			continue // it lives, or nothing is known of it
		}
		for _, id := range ids {
			s.handBack(id, holder, true)
		}
	}
}

// handBack takes a task from a holder that does not go on with it. begun says that it may have run.
func (s *Shared) handBack(id, holder string, begun bool) {
	_, _, err := s.change(s.ctx, id, func(rec *sharedRecord) bool {
		switch {
		case !rec.heldBy(holder):
			return false
		case !begun:
			rec.unclaim()
		case !rec.again():
			rec.end(outcome{Failed, ReasonInterrupted}, nil, ErrInterrupted)
		}
		rec.Holder = ""
		return true
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		s.log.Error("a shared task could not be handed back", "group", s.o.Group, "id", id, "err", err)
	}
}

// unclaim puts a task that has not begun back into the line.
func (rec *sharedRecord) unclaim() {
	rec.State, rec.Holder, rec.Started, rec.Starts = Pending, "", time.Time{}, rec.Starts-1
}

// again puts an interrupted task back into the line, if it may be started once more.
func (r *Record) again() bool {
	if !r.Idempotent || r.Starts >= maxStarts {
		return false
	}
	r.State, r.Started, r.Updated = Pending, time.Time{}, time.Now()
	r.LogTail, r.LogSeq, r.LogCut = "", 0, false
	return true
}

// claimAll claims tasks while there are places.
func (s *Shared) claimAll() {
	for s.ctx.Err() == nil {
		it, id := s.next()
		if it == nil || !s.claim(it, id) {
			return
		}
	}
}

// next returns the task that this replica should claim: the first of the highest priority, and every
// eighth time the one that has waited longest. It returns nil if no task waits or no place is free.
func (s *Shared) next() (best *sharedItem, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Under the lock: a task that starts between the two would count neither as coming nor as running.
	status := s.q.Status()
	if s.closed || s.rev == 0 {
		return nil, "" // without a document of its own, a claim would count as interrupted
	}
	var oldest *sharedItem
	for _, it := range s.line {
		if it.lost || s.held[it.rec.ID] != nil {
			continue
		}
		if oldest == nil || it.rev < oldest.rev {
			oldest = it
		}
		if best == nil || slot(it.rec.Priority) > slot(best.rec.Priority) || slot(it.rec.Priority) == slot(best.rec.Priority) && it.rev < best.rev {
			best = it
		}
	}
	if best == nil {
		s.taken = 0
		return nil, ""
	}
	coming := 0 // claimed, and perhaps not yet at a place
	for _, h := range s.held {
		if !h.started {
			coming++
		}
	}
	busy := status.Running+coming >= status.Concurrency || status.Queued > 0
	if busy && (coming > 0 || time.Since(oldest.rec.Created) < aheadAfter) {
		return nil, ""
	}
	if s.taken++; s.taken%fairEvery == 0 {
		best = oldest
	}
	return best, best.rec.ID
}

// claim makes a waiting task this replica's and runs it. It returns false if the store does not
// answer.
func (s *Shared) claim(it *sharedItem, id string) bool {
	s.mu.Lock()
	h := &held{inc: s.inc}
	h.log.max = s.o.LogBytes
	s.held[id] = h
	s.mu.Unlock()
	rec, _, err := s.change(s.ctx, id, func(rec *sharedRecord) bool {
		if rec.State != Pending {
			return false
		}
		rec.State, rec.Holder, rec.Started = Running, h.inc, time.Now()
		rec.Updated = rec.Started
		rec.Starts++
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	// What Follow has told meanwhile is newer: the task may be cancelled already.
	now := s.seen[id]
	wrote := err == nil && rec.heldBy(h.inc)
	ours := wrote && now != nil && now.rec.heldBy(h.inc) && !h.lost
	if !ours || s.closed {
		delete(s.held, id)
		it.lost = !ours // until the news of its holder come
		if wrote {
			s.loops.Go(func() { s.handBack(id, h.inc, false) })
		}
		return err == nil || errors.Is(err, ErrNotFound)
	}
	h.claimed = true
	s.running.Add(1)
	go s.execute(h, rec)
	return true
}

// claimed is what the Run of the local queue is given for a task of the group.
type claimed struct {
	held *held
	rec  sharedRecord
}

// execute runs a claimed task and writes its end.
func (s *Shared) execute(h *held, rec sharedRecord) {
	defer s.running.Done()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s.mu.Lock()
	lost := h.lost
	h.cancel = cancel
	s.mu.Unlock()
	var result json.RawMessage
	err := ErrInterrupted
	if !lost {
		result, err = s.q.Do(ctx, Spec{
			Owner: rec.Owner, Name: rec.Name, Payload: rec.Payload, Priority: rec.Priority, Timeout: rec.Timeout, Value: &claimed{h, rec},
		})
	}
	s.finish(h, rec.ID, result, err)
	s.mu.Lock()
	if s.held[rec.ID] == h {
		delete(s.held, rec.ID)
	}
	s.mu.Unlock()
	s.look()
}

// run is the Run of the local queue.
func (s *Shared) run(ctx context.Context, job *Job) (json.RawMessage, error) {
	if c, ok := job.Value.(*claimed); ok {
		s.mu.Lock()
		c.held.started = true
		s.mu.Unlock()
		s.look() // there may be another place
		job = &Job{ID: c.rec.ID, Owner: job.Owner, Name: job.Name, Payload: job.Payload, Writer: &c.held.log}
	}
	return s.o.Run(ctx, job)
}

// finish writes the end of a task until the store has it, or the task is no longer this replica's.
func (s *Shared) finish(h *held, id string, result json.RawMessage, err error) {
	end := outcomeOf(err)
	var full *FullError
	for {
		s.mu.Lock()
		lost := h.lost || h.inc != s.inc
		s.mu.Unlock()
		if lost {
			return // its document says how it ended, or others say so
		}
		_, _, failed := s.change(context.Background(), id, func(rec *sharedRecord) bool {
			switch {
			case !rec.heldBy(h.inc):
				return false
			case errors.As(err, &full), errors.Is(err, ErrClosed): // it has not begun
				rec.unclaim()
				return true
			case end.reason == ReasonInterrupted && rec.again():
				rec.Holder = ""
				return true
			}
			h.tell(rec)
			rec.end(end, result, err)
			return true
		})
		switch {
		case failed == nil, errors.Is(failed, ErrNotFound):
			return
		case !errors.Is(failed, store.ErrUnavailable) && !errors.Is(failed, store.ErrConflict) && result != nil:
			err = fmt.Errorf("the tool ran, but its result of %d bytes could not be saved in the shared queue: %w", len(result), failed)
			end, result = outcome{Failed, ReasonUnsaved}, nil
			s.log.Error("the result of a shared task could not be saved", "group", s.o.Group, "task", id, "err", failed)
		default:
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}
}

// Close takes this replica out of the group. Running tasks may finish until ctx ends; then they are
// interrupted. Waiting tasks stay for the other replicas, and for later ones.
func (s *Shared) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	err := s.q.Close(ctx)
	s.running.Wait()
	s.end()
	s.loops.Wait()
	s.stop()
	s.mu.Lock()
	s.fence.Stop()
	inc, rev := s.inc, s.rev
	s.mu.Unlock()
	if rev != 0 {
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewEvery)
		defer cancel()
		_ = s.o.Docs.Delete(leave, s.holder(inc), rev) // it expires otherwise
	}
	if s.o.Close != nil {
		s.o.Close()
	}
	return err
}
