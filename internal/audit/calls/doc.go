// Package calls writes the requests of callers to the audit log: the caller, the request and its
// server, the decision about it, and its end. It knows no gateway and no router; both report their
// requests to it.
//
//	request ─▶ Begin ─▶ server ─▶ End       two records with one call id
//	       ├─▶ Refused                      the request reached no server
//	       ├─▶ Cached                       the answer was kept
//	       └─▶ Viewed                       a part of a held result was shown
//
// A required log writes the record of Begin to disk before the call goes on, and an error of Begin
// must end the call. The order of records is spec/audit §2.
package calls
