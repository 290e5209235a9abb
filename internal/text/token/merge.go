package token

// smallPiece is the length in bytes under which a piece is merged by scanning:
// quadratic, but on the stack. Longer pieces take a heap.
const smallPiece = 64

// countPiece returns the number of tokens of one piece of the split.
func countPiece(piece string) int {
	if len(piece) == 1 || rank(piece) != noRank {
		return 1
	}
	var buf [smallPiece]int32
	return len(appendEnds(buf[:0], piece))
}

// appendEnds appends to ends the end offset of every token of a piece.
func appendEnds(ends []int32, piece string) []int32 {
	if len(piece) == 1 || rank(piece) != noRank {
		return append(ends, int32(len(piece)))
	}
	if len(piece) < smallPiece {
		return mergeSmall(ends, piece)
	}
	return mergeLarge(ends, piece)
}

// mergeSmall is byte-pair encoding by the book: of all neighbours that together are a token, join
// the neighbours of the lowest rank, leftmost first, until none are.
func mergeSmall(ends []int32, piece string) []int32 {
	type part struct {
		start int
		rank  uint32 // of this part joined with the next
	}
	var buf [smallPiece + 1]part
	parts := buf[:len(piece)+1]
	for i := range parts {
		parts[i] = part{i, noRank}
		if i+2 <= len(piece) {
			parts[i].rank = rank(piece[i : i+2])
		}
	}
	joined := func(i int) uint32 {
		if i+2 >= len(parts) {
			return noRank
		}
		return rank(piece[parts[i].start:parts[i+2].start])
	}
	for {
		best, at := uint32(noRank), 0
		for i := range parts {
			if parts[i].rank < best {
				best, at = parts[i].rank, i
			}
		}
		if best == noRank {
			break
		}
		parts = append(parts[:at+1], parts[at+2:]...)
		parts[at].rank = joined(at)
		if at > 0 {
			parts[at-1].rank = joined(at - 1)
		}
	}
	for _, p := range parts[1:] {
		ends = append(ends, int32(p.start))
	}
	return ends
}

// mergeLarge gives the same tokens as mergeSmall in O(n log n), so that a piece
// of a million letters costs no minutes: parts are a linked list, and possible
// joins wait in a heap. A join that no longer holds is known by its rank.
func mergeLarge(ends []int32, piece string) []int32 {
	n := int32(len(piece))
	type part struct {
		prev, next int32
		rank       uint32
	}
	parts := make([]part, n+1)
	queue := make(joins, 0, n)
	joined := func(i int32) uint32 {
		if i < 0 || parts[i].next > n {
			return noRank
		}
		j := parts[parts[i].next].next
		if j > n {
			return noRank
		}
		return rank(piece[i:j])
	}
	for i := range parts {
		parts[i] = part{int32(i) - 1, int32(i) + 1, noRank}
	}
	parts[n].next = n + 1
	for i := range n - 1 {
		if parts[i].rank = joined(i); parts[i].rank != noRank {
			queue.push(join{parts[i].rank, i})
		}
	}
	for len(queue) > 0 {
		top := queue.pop()
		if parts[top.at].rank != top.rank {
			continue
		}
		gone := parts[top.at].next
		after := parts[gone].next
		parts[gone].rank = noRank
		parts[top.at].next = after
		parts[after].prev = top.at
		for _, i := range [2]int32{top.at, parts[top.at].prev} {
			if i < 0 {
				continue
			}
			if parts[i].rank = joined(i); parts[i].rank != noRank {
				queue.push(join{parts[i].rank, i})
			}
		}
	}
	for i := parts[0].next; i <= n; i = parts[i].next {
		ends = append(ends, i)
	}
	return ends
}

// join is a possible join of the part at an offset with its right neighbour.
type join struct {
	rank uint32
	at   int32
}

// joins is a binary min-heap by rank, then from left to right.
type joins []join

func (h joins) less(i, j int) bool {
	return h[i].rank < h[j].rank || h[i].rank == h[j].rank && h[i].at < h[j].at
}

func (h *joins) push(j join) {
	*h = append(*h, j)
	q := *h
	for i := len(q) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.less(i, parent) {
			return
		}
		q[i], q[parent] = q[parent], q[i]
		i = parent
	}
}

func (h *joins) pop() join {
	q := *h
	top := q[0]
	last := len(q) - 1
	q[0] = q[last]
	q = q[:last]
	*h = q
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(q) {
			return top
		}
		if child+1 < len(q) && q.less(child+1, child) {
			child++
		}
		if !q.less(child, i) {
			return top
		}
		q[i], q[child] = q[child], q[i]
		i = child
	}
}
