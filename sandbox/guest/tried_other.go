//go:build !amd64

package guest

var (
	legacyTargets map[int32]target
	legacyRenames map[int32][2]target
)

func legacyOpening(*notification) (at target, flags uint64, ok bool) { return target{}, 0, false }
