package catalog

// Lists are the listings for one principal of the servers that list for each principal.
type Lists struct {
	// Key is equal for principals whose Of is equal, and "" if no server lists for each principal.
	Key string
	// Of has a listing of each server that has one for the principal, in the order of the
	// configuration. A server at which the principal has no credential lists only a sign-in. The
	// listings are immutable, and equal ones share one pointer.
	Of []*Listing
	// Missing are the servers whose listing for the principal is not known: it is being fetched, or
	// the last fetch has failed.
	Missing []string
}
