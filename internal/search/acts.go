package search

import (
	"strings"
	"sync"
)

// acts lists the kinds of acts, each with the verbs that name it. The verbs are in their base form:
// in a query, "commits" is a noun and "commit" may be an act. A verb may name several kinds. The
// first kind changes nothing.
const acts = `
read: analyze browse cat check compare count describe detect diff display dump exists explain
 explore export extract fetch find get give grep head history info inspect is list locate log logs
 look lookup ls measure peek preview print query read recall report resolve retrieve review scan
 search show stat stats status suggest summarize tail tell test track validate verify view watch
 whoami
create: add append attach book build clone compose copy create draft duplicate enter fork generate
 import include init initialize insert jot log make new note open pin post put record register
 remember reserve save schedule set start store submit upload upsert write
delete: archive cancel clear close cut deactivate delete discard dismiss drop erase evict forget kill
 prune purge reject remove revoke scrap strip terminate throw toss trash unassign uninstall unlink
 unpin unschedule unsubscribe unwatch wipe
update: adjust alter amend apply approve assign change complete configure convert correct disable edit
 enable extend fill finish fix format lower make mark merge modify move patch postpone promote put
 raise reassign rename reopen reorder reorganize replace reschedule reset resize restore revert revise
 rotate scale set shift sort swap switch tag tick turn unblock unlock unmute unstage update upgrade
 upsert write
send: answer forward invite mail message notify ping post publish reply respond send share submit tell
run: apply build call compile deploy exec execute install invoke launch play restart resume rollout run
 start trigger
stop: abort cancel close disable end halt kill leave mute pause quit stop suspend terminate
move: download drag export import migrate move pull push transfer upload
connect: connect join link login mount
join: add assign attach connect grant invite join link share subscribe
lock: block lock mute protect
press: click drag hover press scroll select tap toggle type
go: checkout go load navigate open switch visit
keep: commit save snooze stage stash store sync
pay: buy charge pay purchase refund
draw: draw highlight paint paste
pack: compress encrypt zip
`

// Bits of kinds of acts: kindRead of those that change nothing.
const (
	kindRead   = 1
	kindCreate = 2
	kindDelete = 4
)

// contradict reports whether an act of the kinds of a query and one of the kinds of a document exclude each
// other: a query to read one that only creates or deletes, a query to create one that only deletes, a query
// to delete one that only reads or creates.
func contradict(query, doc uint32) bool {
	switch {
	case query&doc != 0 || doc == 0:
		return false
	case query == kindRead:
		return doc&(kindCreate|kindDelete) != 0
	case query&kindCreate != 0:
		return doc&kindDelete != 0
	case query&kindDelete != 0:
		return doc&(kindRead|kindCreate) != 0
	}
	return false
}

// kinds maps a verb to the kinds of acts that it names, one bit each.
var kinds = sync.OnceValue(func() map[string]uint32 {
	m := map[string]uint32{}
	bit := uint32(0)
	for _, w := range strings.Fields(acts) {
		if strings.HasSuffix(w, ":") {
			bit = max(kindRead, bit<<1)
			continue
		}
		m[w] |= bit
	}
	return m
})

// phrases maps verbs of two words to the verb with the same meaning.
var phrases = map[string]string{
	"back up": "export", "bring back": "restore", "check off": "complete", "cross off": "complete",
	"fill in": "fill", "fill out": "fill", "find out": "search", "get out": "extract",
	"get rid": "remove", "give back": "refund", "go back": "back", "know about": "knowledge", "hand over": "assign",
	"jot down": "note", "kick off": "start", "log in": "login", "look for": "search",
	"look up": "search", "note down": "note", "pull out": "extract", "push back": "postpone",
	"put back": "restore", "put off": "postpone", "set off": "trigger", "set up": "create",
	"shut down": "stop", "shut off": "stop", "sign in": "login", "start over": "restart",
	"switch off": "disable", "switch on": "enable", "take back": "undo", "take off": "remove",
	"take out": "remove", "throw away": "remove", "throw out": "remove", "tick off": "complete",
	"turn off": "disable", "turn on": "enable", "write down": "note",
}

// askWords ask for something to read.
var askWords = lazySet(wordSet, `
any are did does has have how is last latest list many much recent see show tell was were what when
where which who whos whose why
`)
