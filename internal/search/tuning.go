package search

// fieldTuning has the weight of a field's occurrence, the strength of length normalisation (0..1),
// and the pivot length in tokens. The pivots are constants, not averages of the catalog, so that a
// posting does not depend on other upstreams and a segment is final once built.
type fieldTuning struct{ weight, b, pivot float32 }

// tuning has all parameters of the ranking. The optimum is flat: halving or doubling a value moves
// the mean over the sets by less than one point, so none of them is an option.
type tuning struct {
	fields   [fields]fieldTuning
	k1       float32 // saturation of the weighted frequency
	raw      float32 // of a raw token; its stem has 1
	verb     float32 // of a verb's synonym
	noun     float32 // of a noun's synonym or short form
	product  float32 // of a word of a product's server
	misspelt float32 // of a word that is one edit away
	related  float32 // of a related word of the same meaning
	distant  float32 // similarity below which words are not related
	faint    float32 // of a framing word
	number   float32 // of a number
	story    float32 // of a word of the story around a request
	agreed   float32 // added share of the score of a document whose act is the query's
	other    float32 // share of the score that a document with another act loses
	against  float32 // share that a document with a contradicting act loses in addition
	asked    float32 // share of the score that a document that acts loses to a question
	unasked  float32 // share of the score that an act loses that no word of the query means
	serves   float32 // share of the best score from which a document serves a query: deprecated ones stand below it
	pair     float32 // of two neighbours of the query that are neighbours in the document
	named    float32 // of the share of a document's name that the query asks for
	grams    float32 // of the character n-gram cosine; BM25F has 1
	cover    float32 // share of a term's n-gram mass that the query must contain for the term to count
	meaning  float32 // of the cosine of embeddings
	chosen   float32 // added share of the score of a document that all choices before fell on
	server   float32 // of the server prior
	siblings int     // number of a server's best tools that make its prior
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
			fieldServerTitle: {1, .5, 3},
			fieldAbout:       {.15, .75, 30},
		},
		k1:       1.2,
		raw:      .2,
		verb:     .6,
		noun:     .2,
		product:  .8,
		misspelt: .8,
		related:  1,
		distant:  .45,
		faint:    .5,
		number:   .5,
		story:    .5,
		agreed:   .2,
		other:    .1,
		against:  .2,
		asked:    .2,
		unasked:  .05,
		serves:   .6,
		pair:     .15,
		named:    .12,
		grams:    .5,
		cover:    .3,
		meaning:  1.5,
		chosen:   .05,
		server:   .3,
		siblings: 2,
	}
}
