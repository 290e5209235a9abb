// Package check reads what the Helm chart in the folder weir next to it makes. It is a module of its own, because the
// tests need Helm and the types of Kubernetes, and users of weir do not.
//
//	../weir ─▶ package helm (make chart) ─▶ examples/kubernetes/*.yaml ─┬▶ the types of the API (make chart-check)
//	                                                                    └▶ weir and NATS (internal/cli)
package check
