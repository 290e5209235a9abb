package search

// fieldTuning weighs one field: how much one occurrence counts, how strongly a long field is discounted (0..1),
// and the length in tokens at which nothing is discounted. The pivots are fixed and not averages of the catalog,
// so that a posting's weight never depends on other upstreams and a segment is final once built.
type fieldTuning struct{ weight, b, pivot float32 }

// tuning is every number of the ranking. The optimum is flat: half or twice a value moves a mean over sets by less than
// one point, so none of them is worth an option.
type tuning struct {
	fields   [fields]fieldTuning
	k1       float32 // saturation of the weighted frequency
	raw      float32 // of a raw token, beside 1 for its stem
	verb     float32 // of a verb's synonym
	noun     float32 // of a noun's synonym or short form
	faint    float32 // of a framing word
	pair     float32 // of two neighbours of the query that are neighbours in the document
	named    float32 // of the share of a document's name that the query asks for
	grams    float32 // of the character n-gram cosine, beside 1 for BM25F
	cover    float32 // share of a term's n-gram mass the query must hold for the term to count
	meaning  float32 // of the cosine of embeddings, where there is an Embedder
	server   float32 // of the server prior
	siblings int     // how many of a server's best tools make its prior
}

func defaultTuning() *tuning {
	return &tuning{
		fields: [fields]fieldTuning{
			fieldServer:      {2, .5, 2},
			fieldName:        {3, .5, 4},
			fieldTitle:       {2, .5, 4},
			fieldDescription: {1, .75, 18},
			fieldTags:        {1, .5, 3},
			fieldParamName:   {.5, .75, 6},
			fieldParamText:   {.35, .75, 30},
		},
		k1:       1.2,
		raw:      .2,
		verb:     .6,
		noun:     .2,
		faint:    .5,
		pair:     .15,
		named:    .12,
		grams:    .5,
		cover:    .3,
		meaning:  1.5,
		server:   .3,
		siblings: 2,
	}
}
