package escape_test

import (
	"os"
	"testing"

	"github.com/sallyport/sallyport/test/escape"
	"github.com/sallyport/sallyport/test/sallytest"
)

func TestMain(m *testing.M) { os.Exit(sallytest.Run(m)) }

func TestNative(t *testing.T) { escape.Run(t, sallytest.Driver(t)) }
