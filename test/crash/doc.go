// Package crash kills sallyport, the whole program, at many moments, and looks
// at what is left: no process, no mount, no temporary file; and after the next
// start, no cgroup and no half-made session. The session can go on over the same
// layers, and an apply that was cut short is finished by the next one.
package crash
