#include "go_asm.h"
#include "textflag.h"

// The child uses neither a stack nor any memory but the calls and the results:
// all it knows is in registers, which the kernel leaves alone: R12 the next
// call, R13 the end of the calls, BX the results, R14 the next result, R15 the
// status.

// func forkAndRun(args *cloneArgs, calls []call, results []uintptr, status int) (pid uintptr, errno uintptr)
TEXT ·forkAndRun(SB), NOSPLIT, $0-80
	MOVQ	args+0(FP), DI
	MOVQ	$cloneArgs__size, SI
	MOVQ	calls_base+8(FP), R12
	MOVQ	calls_len+16(FP), R13
	IMULQ	$call__size, R13
	ADDQ	R12, R13
	MOVQ	results_base+32(FP), BX
	MOVQ	status+56(FP), R15
	MOVQ	$435, AX		// clone3
	SYSCALL
	TESTQ	AX, AX
	JEQ	child
	CMPQ	AX, $0xfffffffffffff001
	JCC	failed
	MOVQ	AX, pid+64(FP)
	MOVQ	$0, errno+72(FP)
	RET
failed:
	NEGQ	AX
	MOVQ	$0, pid+64(FP)
	MOVQ	AX, errno+72(FP)
	RET

child:
	LEAQ	8(BX), R14
next:
	CMPQ	R12, R13
	JCC	done

	// An argument that comes from an earlier call replaces the one that stands
	// there.
#define ARG(j, reg) \
	MOVQ	(call_args+8*j)(R12), reg; \
	MOVLQSX	(call_from+4*j)(R12), AX; \
	TESTQ	AX, AX; \
	CMOVQNE	(BX)(AX*8), reg
	ARG(0, DI)
	ARG(1, SI)
	ARG(2, DX)
	ARG(3, R10)
	ARG(4, R8)
	ARG(5, R9)
	MOVQ	call_nr(R12), AX
	SYSCALL
	CMPQ	AX, $0xfffffffffffff001
	JCC	error
	MOVQ	AX, (R14)
	ADDQ	$8, R14
	ADDQ	$call__size, R12
	JMP	next

error:
	NEGQ	AX
	CMPQ	AX, $4			// EINTR: no handler interrupts; a stop and continuation may
	JEQ	next
	MOVQ	call_skip(R12), CX
	TESTQ	CX, CX
	JLT	fail
	CMPQ	AX, $2			// ENOENT
	JEQ	skip
	CMPQ	AX, $20			// ENOTDIR
	JEQ	skip
	CMPQ	AX, $40			// ELOOP
	JNE	fail
skip:
	INCQ	CX
	LEAQ	(R14)(CX*8), R14
	IMULQ	$call__size, CX
	ADDQ	CX, R12
	JMP	next

fail:
	// The number of the call, and the errno.
	SUBQ	BX, R14
	SHRQ	$3, R14
	DECQ	R14
	SHLQ	$32, R14
	ORQ	AX, R14
	MOVQ	R14, (BX)
	JMP	tell
done:
	MOVQ	$-1, (BX)		// programDone
tell:
	MOVQ	R15, DI
	MOVQ	BX, SI
	MOVQ	$8, DX
	MOVQ	$1, AX			// write
	SYSCALL
exit:
	MOVQ	$0, DI
	MOVQ	$231, AX		// exit_group
	SYSCALL
	JMP	exit
