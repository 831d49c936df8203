package escape_test

import (
	"io"
	"os"
	"testing"

	"github.com/containerd/log"

	"github.com/sallyport/sallyport/test/escape"
	"github.com/sallyport/sallyport/test/sallytest"
)

func TestMain(m *testing.M) {
	log.L.Logger.SetOutput(io.Discard) // ttrpc's, of forged frames
	os.Exit(sallytest.Run(m))
}

func TestNative(t *testing.T) { escape.Run(t, sallytest.Driver(t)) }
