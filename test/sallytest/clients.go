package sallytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ClientsEnv names a directory in which npm has installed agents' clients, as
// .ci/run does. Where it is set, none may be missing.
const ClientsEnv = "SALLYPORT_TEST_CLIENTS"

// Client returns the path of an agent's client, or "" when there is none: then a
// test says that it leaves something out.
func Client(name string) (string, error) {
	if dir := os.Getenv(ClientsEnv); dir != "" {
		path := filepath.Join(dir, "node_modules", ".bin", name)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s is set: %w", ClientsEnv, err)
		}
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", nil
	}
	return filepath.Abs(path)
}
