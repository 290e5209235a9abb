// Package calls tells the audit log what callers do: who made a request, what it asked of which
// server, what was decided about it, and how it ended. It knows no gateway and no router; both tell
// it of their requests.
//
//	request ─▶ Begin ─▶ server ─▶ End       two records with one call id
//	       ├─▶ Refused                      the request reached no server
//	       ├─▶ Cached                       the answer was kept
//	       └─▶ Viewed                       a part of a held result was shown
//
// A required log writes the record of Begin to disk before the call goes on, and an error of Begin
// must end the call. The order of records is spec/audit §2.
package calls
