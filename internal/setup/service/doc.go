// Package service runs the gateway as a service of one user: a unit of systemd, an agent of launchd
// or a task of Windows.
//
//	Settings (program, configuration, port, environment)
//	   │
//	   ├─ Plan       files and commands, to show before anything changes
//	   ├─ Install    service.env, the unit, service.json ──▶ systemctl, launchctl, schtasks
//	   ├─ Restore    the settings of before, or no service: the way back of Install and Remove
//	   └─ Status     what the manager says: enabled, running, since, lingering
//
//	configuration folder ── service.env    environment of the gateway, read by weir serve --env-file
//	state folder ────────── service.json   the settings of the last Install
//
// The package asks no person, reads no environment and knows no configuration: commands hand it a
// [Machine]. It also has the gateway's side of a service: [Notifier] notifies systemd that the
// gateway is ready, and [OpenLog] keeps a log within bounds where the system keeps none.
package service
