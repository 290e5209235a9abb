// Package lease says that a process lives, so that other processes leave it what it owns.
//
//	Holder ─ renews its document each 3 s ─▶ store      a document that is not renewed ends after 20 s
//	   │
//	   └ no acknowledgement for 15 s: Lost, and the holder goes on under another name
//
// A holder that has lost its lease owns nothing from that moment. Other processes take over only when
// the document is gone, which is at least five seconds later.
//
// The package knows neither what is owned nor who asks.
package lease
