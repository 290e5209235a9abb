package eval

import "math"

// Metrics are the means over the queries of one set. All lie in 0..1.
type Metrics struct {
	R1   float64 `json:"r1"`   // groups hit at rank 1 / groups
	R5   float64 `json:"r5"`   // groups hit in the first five / groups
	R10  float64 `json:"r10"`  // groups hit in the first ten / groups
	NDCG float64 `json:"ndcg"` // nDCG over the first ten, binary gain per group
	MRR  float64 `json:"mrr"`  // 1 / rank of the first hit
}

// depth is how many results are judged; every metric but MRR stops at or before it.
const depth = 10

// score judges one ranking against groups of interchangeable ids. A group counts once, at its first member's rank:
// its other members neither gain nor cost a place. An id that stands in several groups hits them all.
// A query without groups scores zero.
func score(ranked []string, groups [][]string) Metrics {
	var m Metrics
	if len(groups) == 0 {
		return m
	}
	of := map[string][]int{}
	for g, ids := range groups {
		for _, id := range ids {
			of[id] = append(of[id], g)
		}
	}
	hit := make([]bool, len(groups))
	hits, dcg := 0, 0.0
	for i, id := range ranked {
		fresh := 0
		for _, g := range of[id] {
			if !hit[g] {
				hit[g] = true
				fresh++
			}
		}
		if fresh > 0 && hits == 0 {
			m.MRR = 1 / float64(i+1)
		}
		hits += fresh
		r := float64(hits) / float64(len(groups))
		if i < 1 {
			m.R1 = r
		}
		if i < 5 {
			m.R5 = r
		}
		if i < depth {
			m.R10 = r
			dcg += float64(fresh) / math.Log2(float64(i+2))
		}
	}
	ideal := 0.0
	for i := range min(len(groups), depth) {
		ideal += 1 / math.Log2(float64(i+2))
	}
	m.NDCG = min(1, dcg/ideal)
	return m
}

// add sums other into m.
func (m *Metrics) add(o Metrics) {
	m.R1 += o.R1
	m.R5 += o.R5
	m.R10 += o.R10
	m.NDCG += o.NDCG
	m.MRR += o.MRR
}

// over divides every value by n.
func (m *Metrics) over(n int) {
	if n == 0 {
		return
	}
	f := 1 / float64(n)
	m.R1 *= f
	m.R5 *= f
	m.R10 *= f
	m.NDCG *= f
	m.MRR *= f
}
