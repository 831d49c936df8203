package escape

import "testing"

func testCrowds(t *testing.T, s *suite) {}
func testForged(t *testing.T, s *suite) {}
