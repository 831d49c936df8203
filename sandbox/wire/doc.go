// Package wire is the protocol between the host and the guest of a container:
// protobuf messages over containerd/ttrpc on any byte stream.
//
// The host uses [Client], the guest the generated server. To the host, the
// guest is as untrusted as the agent that it runs: the client sits behind a
// guard that lets through only frames that answer something the host asked,
// bounds each in size, and holds the guest to the output window. A guest that
// breaks the protocol has its connection closed, and every call on it fails
// with [ErrProtocol]; other sessions are not touched.
//
// Both sides may import this package. It must stay small: it is part of PID 1
// in every container.
package wire

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-ttrpc_out=. --go-ttrpc_opt=paths=source_relative wire.proto

const (
	// Window is how many bytes of a call's output may be on their way without
	// having been acknowledged, as Charge counts them.
	Window = 256 << 10
	// Chunk is the most that one message carries of a program's output or
	// input.
	Chunk = 32 << 10
	// MaxFrame is the largest message, in bytes. It bounds a call's input and
	// result; what is larger goes through files.
	MaxFrame = 4 << 20
)

// Charge is how much of the window a message takes that carries n bytes of a
// program's output. Small ones count as more than they carry, so that what is on
// its way is bounded in messages too: ttrpc keeps 64 for who does not read, and
// fails the call at the next.
func Charge(n int) uint64 { return max(uint64(n), Window/32) }
