// Package permission decides what a call may do. It knows nothing of tools,
// sessions and drivers: it is asked about a [Request], plain data, and answers
// with a [Decision], whose [Grant] the pipeline turns into an envelope.
package permission
