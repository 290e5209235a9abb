package linearity

// Fetch is the input of an operation that spends a token.
type Fetch struct{ By string }

// End is the input of an operation that ends a token without rows, such as the kill of its node.
type End struct{}

// Fetched is the output of a Fetch.
type Fetched string

// Outputs of a Fetch.
const (
	Rows    Fetched = "rows"    // all of them
	Refused Fetched = "refused" // the token is not known, or has been used
	Lost    Fetched = "lost"    // the client does not know; rows may have been given
)

// Tokens is the model of URLs that work once: the first Fetch gets the rows.
func Tokens() Model {
	return Model{start: false, step: func(state any, op Operation) (bool, any) {
		spent, _ := state.(bool)
		if _, end := op.Input.(End); end {
			return true, true
		}
		switch op.Output {
		case Rows:
			return !spent, true
		case Refused:
			return spent, spent
		}
		return true, true
	}}
}
