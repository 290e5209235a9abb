package tasks

// ErrNodeGone is the error of Nodes.Ask for a node that is gone.
var ErrNodeGone = errNodeGone
