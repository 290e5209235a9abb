// Package syslog sends records of an audit log to a collector of a security team, as syslog messages (RFC 5424) over
// UDP, TCP or TLS. A message holds the record's line as it is in the log, or the event that OCSF has for it. It knows
// no configuration.
//
//	lines of the log ─▶ Add ─▶ queue (bounded) ─▶ OCSF ─▶ RFC 5424 ─┬▶ udp: a datagram each
//	                     │                                          └▶ tcp, tls: octet counting (RFC 6587)
//	                     └ no room: dropped, and counted
//
// Add never waits. A stream that breaks is opened again, and the message that was being sent is sent again. Syslog has
// no acknowledgements: messages that a broken connection had taken may be lost, and the files of the log have them.
package syslog
