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
	// having been acknowledged. A small piece counts as one of leastCost.
	Window = 256 << 10
	// Chunk is the most that one message carries of a program's output or
	// input.
	Chunk = 32 << 10
	// MaxFrame is the largest message, in bytes. It bounds a call's input and
	// result; what is larger goes through files.
	MaxFrame = 4 << 20
)

// leastCost bounds how many pieces of output may be on their way. The host's
// ttrpc keeps 64 messages of a stream, and gives the stream up when another one
// waits for a second.
const leastCost = Window / 32

// Cost is what a piece of output of n bytes takes of the window.
func Cost(n int) uint64 { return uint64(max(n, leastCost)) }
