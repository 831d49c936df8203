package bash

import (
	"strings"
	"sync"
)

// A row is a line of the table of commands that only read.
type row struct {
	names string
	kind  Kind
	opts  string // see options
	flags string // see flags
}

// rows are the commands that change nothing, with the flags that leave them so.
// Options are
//
//	free     no flag that the command has does harm
//	from=N   operands from N on are paths; from=none: none is
//	most=N   with more operands it is something else; most=none: with any
//	tree=F   with one of these flags it reads all below its operands; tree=*
//	follow=F with one of these flags it does so through links; follow=*
//	here     without operands it reads the working directory
//	whole=F  with one of these flags all operands are paths
//	other=F  with one of these flags it reads files that others name
var rows = []row{
	{"ls dir vdir", List, "free here tree=R,recursive follow=L,dereference", "-aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1 -I= -T= -w= --all --almost-all --author --escape --block-size= --ignore-backups --color? --directory --classify? --file-type --format= --full-time --group-directories-first --no-group --human-readable --si --dereference-command-line --dereference --hide= --hyperlink? --indicator-style= --inode --ignore= --kibibytes --literal --hide-control-chars --show-control-chars --quote-name --quoting-style= --reverse --recursive --size --sort= --time= --time-style= --tabsize= --width= --context --zero --numeric-uid-gid --version --help"},
	{"cat", Read, "free", "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs --show-nonprinting --version --help"},
	{"tac", Read, "free", "-br -s= --before --regex --separator= --version --help"},
	{"rev", Read, "free", "--version --help"},
	{"nl", Read, "free", "-p -b= -d= -f= -h= -i= -l= -n= -s= -v= -w= --body-numbering= --number-format= --number-width= --number-separator= --starting-line-number= --no-renumber"},
	{"head", Read, "free", "-qvz -c= -n= -# --bytes= --lines= --quiet --silent --verbose --zero-terminated --version --help"},
	{"tail", Read, "free", "-fFqvz -c= -n= -s= -# --bytes= --lines= --quiet --silent --verbose --zero-terminated --follow? --pid= --retry --sleep-interval= --max-unchanged-stats= --version --help"},
	{"wc", Read, "free other=files0-from", "-clmLw --bytes --chars --lines --max-line-length --words --total= --files0-from< --version --help"},
	{"grep egrep fgrep", Search, "free from=grep tree=r,R,recursive,dereference-recursive follow=R,dereference-recursive", "-abcEFGhHiIlLnoPqrRsTuUvVwxyzZ -# -A= -B= -C= -D= -d= -e= -f< -m= --extended-regexp --fixed-strings --basic-regexp --perl-regexp --regexp= --file< --ignore-case --no-ignore-case --word-regexp --line-regexp --null-data --no-messages --invert-match --max-count= --byte-offset --line-number --line-buffered --with-filename --no-filename --label= --only-matching --quiet --silent --binary-files= --text --directories= --devices= --recursive --dereference-recursive --include= --exclude= --exclude-from< --exclude-dir= --files-without-match --files-with-matches --count --initial-tab --null --before-context= --after-context= --context= --color? --colour? --binary --version --help"},
	{"cut", Read, "free", "-snz -b= -c= -d= -f= --bytes= --characters= --delimiter= --fields= --only-delimited --output-delimiter= --complement --zero-terminated"},
	{"paste", Read, "free", "-sz -d= --delimiters= --serial --zero-terminated"},
	{"tr", Read, "free from=none", "-cCdst --complement --delete --squeeze-repeats --truncate-set1"},
	{"fold", Read, "free", "-bsc -w= -# --bytes --spaces --width="},
	{"fmt", Read, "free", "-cstu -w= -p= -g= -# --width= --prefix= --crown-margin --split-only --tagged-paragraph --uniform-spacing --goal="},
	{"pr", Read, "free", "-adcFfJmrTtvW -# -h= -l= -n? -o= -s? -w= -e? -i? --header= --length= --width= --omit-header --omit-pagination --columns="},
	{"expand unexpand", Read, "free", "-ai -t= --initial --all --tabs= --first-only"},
	{"column", Read, "free", "-tnxeLJ -s= -o= -c= -N= -R= -T= -O= -H= -E= -W= --table --separator= --output-separator= --output-width= --table-columns= --table-right= --json --fillrows --table-name="},
	{"comm", Read, "free", "-123z --check-order --nocheck-order --output-delimiter= --total --zero-terminated"},
	{"join", Read, "free", "-iz -a= -e= -o= -t= -v= -1= -2= -j= --ignore-case --check-order --nocheck-order --header --zero-terminated"},
	{"cmp", Read, "free", "-bls -i= -n= --print-bytes --ignore-initial= --verbose --bytes= --quiet --silent"},
	{"diff", Read, "free tree=r,recursive,N,new-file,unidirectional-new-file follow=*", "-abBcdeEiHnNpqrstTuvwyZ -# -C= -F= -I= -L= -S= -U= -W= -x= -X< --normal --brief --report-identical-files --context? --unified? --ed --rcs --side-by-side --width= --left-column --suppress-common-lines --show-c-function --show-function-line= --label= --expand-tabs --initial-tab --tabsize= --suppress-blank-empty --recursive --no-dereference --new-file --unidirectional-new-file --ignore-file-name-case --no-ignore-file-name-case --exclude= --exclude-from< --starting-file= --from-file< --to-file< --ignore-case --ignore-tab-expansion --ignore-trailing-space --ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-matching-lines= --text --strip-trailing-cr --ifdef= --minimal --horizon-lines= --speed-large-files --color? --palette= --version --help"},
	{"diff3", Read, "", "-aAeETxXim3 -L= --show-all --text --merge --easy-only --label= --show-overlap"},
	{"stat", Read, "free", "-fLt -c= --dereference --file-system --format= --printf= --terse --cached= --version --help"},
	{"du", List, "free here tree=* follow=L,dereference other=files0-from", "-0abcDhHklLmPsSx -B= -d= -t= -X< --all --apparent-size --block-size= --bytes --total --dereference-args --max-depth= --human-readable --inodes --si --summarize --separate-dirs --threshold= --time? --time-style= --one-file-system --exclude= --exclude-from< --count-links --null --no-dereference --files0-from<"},
	{"df", List, "free", "-ahHiklmPTv -B= -t= -x= --all --block-size= --human-readable --si --inodes --local --portability --print-type --type= --exclude-type= --total --output? --no-sync"},
	{"basename", Neutral, "free from=none", "-az -s= --multiple --suffix= --zero"},
	{"dirname", Neutral, "free from=none", "-z --zero"},
	{"realpath", Read, "free", "-eELmPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet --relative-to= --relative-base= --strip --no-symlinks --zero"},
	{"readlink", Read, "free", "-efmnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet --silent --verbose --zero"},
	{"file", Read, "", "exact -bBcdhiIkLNnrsv0 -F= -P= -e= --brief --mime --mime-type --mime-encoding --dereference --no-dereference --extension --keep-going --separator= --print0 --raw --special-files --version --help"},
	{"md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum shasum", Read, "free other=c,check", "-bctwzrs -l= -a= --binary --check --tag --text --zero --ignore-missing --quiet --status --strict --warn --length= --algorithm= --raw --base64 --untagged --debug"},
	{"od", Read, "free", "-abcdfhiloxsv -A= -j= -N= -S= -t= -w? --address-radix= --skip-bytes= --read-bytes= --strings? --format= --output-duplicates --width? --endian="},
	{"hexdump hd", Read, "free", "-bcCdovx -e= -f< -n= -s= --canonical --length= --skip= --no-squeezing"},
	{"strings", Read, "free", "-afowW -# -n= -t= -e= -d --all --print-file-name --bytes= --radix= --encoding= --include-all-whitespace"},
	{"base64 base32 basenc", Read, "free", "-di -w= --decode --ignore-garbage --wrap= --base64 --base64url --base32 --base32hex --base16 --z85"},
	{"uniq", Read, "most=1", "exact -cdDiuz -f= -s= -w= --count --repeated --all-repeated? --skip-fields= --group? --ignore-case --skip-chars= --unique --zero-terminated --check-chars="},
	{"sort", Read, "other=files0-from", "exact -bcCdfghiMmnrRsuVz -k= -t= -S= --ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort --random-sort --reverse --sort= --version-sort --check? --debug --key= --merge --stable --buffer-size= --field-separator= --unique --zero-terminated --parallel= --batch-size= --files0-from< --random-source<"},
	{"shuf", Read, "", "exact -erz -i= -n= --echo --input-range= --head-count= --repeat --zero-terminated --random-source<"},
	{"tsort", Read, "free", ""},
	{"seq", Neutral, "free from=none", "-w -s= -f= -# --separator= --equal-width --format="},
	{"numfmt", Neutral, "free from=none", "-z -d= --from= --to= --field= --padding= --suffix= --header? --round= --format= --grouping --delimiter= --invalid= --from-unit= --to-unit="},
	{"factor", Neutral, "free from=none", ""},
	{"pwd", Neutral, "free from=none", "-LP"},
	{"tree", List, "here tree=* follow=l", "-adfghilnpqrstuvxACDFJNQSUX -L! -P! -I! --noreport --dirsfirst --filesfirst --du --si --prune --charset? --filelimit? --gitignore --ignore-case --matchdirs --inodes --device --sort? --timefmt? --metafirst --fromfile --info"},
	{"date", Neutral, "from=none most=1", "exact -uR -d= -I? -r< --reference< --date= --utc --universal --iso-8601? --rfc-3339= --rfc-email --debug"},
	{"cal ncal", Neutral, "free from=none", "-13jmsywhMNb -A= -B= -n= -d="},
	{"uname arch nproc whoami logname groups id tty", Neutral, "free from=none", "-asnrvmpiogGuzZ --all --kernel-name --kernel-release --machine --nodename --operating-system --processor --group --groups --name --real --user --zero --silent --quiet --ignore= --pretty --since --hardware-platform --kernel-version"},
	{"users uptime", Read, "free", "-ps --pretty --since"},
	{"hostname", Neutral, "from=none most=none", "-s"},
	{"printenv", Neutral, "free from=none", "-0 --null"},
	{"free", Neutral, "free from=none", "-bkmghlwtv --bytes --kibi --mebi --gibi --human --total --wide --lohi"},
	{"lscpu lsblk", Neutral, "from=none most=none", "-aJfplmtbn --json --all --bytes --fs"},
	{"getconf", Neutral, "from=none", "-a"},
	{"locale", Neutral, "free from=none", "-ackm --all-locales --charmaps --category-name --keyword-name"},
	{"iconv", Read, "", "exact -cls -f= -t= --from-code= --to-code= --list --silent"},
	{"jq", Read, "free from=1 whole=f,from-file other=f,from-file", "-cnrRjaSCMsebhV -f< --arg@ --argjson@ --slurpfile% --rawfile% -L= --compact-output --null-input --raw-input --raw-output --join-output --ascii-output --sort-keys --color-output --monochrome-output --slurp --exit-status --tab --indent= --from-file< --seq --stream --unbuffered --raw-output0 --binary --argfile% --stream-errors --build-configuration --args --jsonargs --help --version"},
	{"bc", Read, "free", "-lqsw --mathlib --quiet --standard"},
	{"which", List, "free from=none", "-as --all"},
	{"whereis", List, "from=none", "-bmsul"},
	{"whatis apropos", Read, "free from=none", "-er --exact --regex --version --help"},
	{"type", List, "free from=none", "-afptP"},
	{"zcat", Read, "free", "-f --force"},
	{"bzcat xzcat lzcat zstdcat", Read, "", "-kqv --keep --quiet"},
	{"gzip gunzip bzip2 bunzip2 xz unxz", Read, "", "-cdklqtvf123456789 --stdout --to-stdout --decompress --uncompress --keep --force --list --quiet --test --verbose"},
	{"unzip", Read, "", "-lvtqpcZ1"},
	{"zipinfo", Read, "", "-12smlvhtTz"},
	{"nm", Read, "", "-aABCDgnoprSsuv --demangle? --dynamic --defined-only --extern-only --numeric-sort --print-size --size-sort --undefined-only --no-sort --reverse-sort"},
	{"size", Read, "", "-ABdoxt --format= --radix= --totals --common"},
	{"readelf", Read, "", "-hlSseWVdrnA --file-header --program-headers --segments --section-headers --sections --headers --syms --symbols --dyn-syms --dynamic --relocs --notes --version-info --wide"},
	{"c++filt", Neutral, "from=none", "-_npi"},
	{"objdump", Read, "", "-aCdDefghHprRstTwxz -j= -m= -M= --all-headers --archive-headers --demangle? --disassemble? --disassemble-all --disassembler-options= --dynamic-reloc --dynamic-syms --file-headers --full-contents --headers --no-addresses --no-show-raw-insn --private-headers --reloc --section= --section-headers --show-raw-insn --start-address= --stop-address= --syms --wide"},
	{"sdiff", Read, "", "-abBdEHilstW -w= --ignore-case --ignore-tab-expansion --ignore-space-change --ignore-all-space --ignore-blank-lines --left-column --minimal --strip-trailing-cr --suppress-common-lines --text --width="},
	{"zgrep zegrep zfgrep", Search, "free from=grep", "-abcEFGHhiLlnoqsvwxz -A= -B= -C= -e= -m="},
	{"ag", Search, "from=1 here tree=* follow=f,follow", "exact -acDfFiLlnoQrRsSuUvwz0 -A= -B= -C= -G= -m= -p< --ackmate --after? --all-text --all-types --before? --break --case-sensitive --color --column --context? --count --depth= --files-with-matches --files-without-matches --filename --file-search-regex= --fixed-strings --follow --group --heading --hidden --ignore= --ignore-case --ignore-dir= --invert-match --list-file-types --literal --match --max-count= --no-numbers --nobreak --nocolor --nofilename --nofollow --nogroup --noheading --nonumbers --norecurse --null --numbers --one-device --only-matching --passthrough --print-all-files --print-long-lines --recurse --search-binary --search-files --search-zip --silent --skip-vcs-ignores --smart-case --stats --stats-only --unrestricted --version --vimgrep --width= --word-regexp"},
	{"bat batcat", Read, "", "-AfhnpPuV -H= -l= -m= -r= --binary= --color= --decorations= --diff --diff-context= --file-name= --force-colorization --highlight-line= --ignored-suffix= --italic-text= --language= --line-range= --list-languages --list-themes --map-syntax= --nonprintable-notation= --no-config --no-custom-assets --number --paging= --plain --show-all --squeeze-blank --strip-ansi= --style= --tabs= --terminal-width= --theme= --unbuffered --version --wrap="},
	{"eza exa", List, "here tree=R,T,recurse,tree follow=X,dereference,follow-symlinks", "-1aAbBdDfFgGhHiIlMmnOoRrSTuUxXZ -I= -L= -s= -t= -w= --absolute? --accessed --all --almost-all --across --binary --blocksize --bytes --changed --classify? --color= --colour= --color-scale? --colour-scale? --context --created --dereference --extended --flags --follow-symlinks --git --git-ignore --git-repos --git-repos-no-status --grid --group --group-directories-first --group-directories-last --header --hyperlink --icons? --ignore-glob= --inode --level= --links --list-dirs --long --modified --mounts --no-filesize --no-git --no-icons --no-permissions --no-quotes --no-time --no-user --numeric --octal-permissions --oneline --only-dirs --only-files --recurse --reverse --show-symlinks --no-symlinks --smart-group --sort= --stdin --time= --time-style= --total-size --tree --version --width="},
	{"lsd", List, "here tree=R,recursive,tree follow=L,dereference", "-1aAdFghilLrRsStUvX -I= --all --almost-all --blocks= --classic --classify --color= --date= --depth= --dereference --directory-only --extensionsort --git --gitsort --group-dirs= --group-directories-first --header --human-readable --hyperlink= --icon= --icon-theme= --ignore-glob= --inode --literal --long --no-sort --no-symlink --oneline --permission= --recursive --reverse --size= --sizesort --sort= --timesort --total-size --tree --truncate-owner-after= --version --versionsort"},
	{"yq", Read, "", "-0CcehjMNnPrVyY -I= -o= -p= --colors --exit-status --help --indent= --input-format= --no-colors --no-doc --null-input --output-format= --prettyPrint --raw-output --tojson --unwrapScalar? --version --xml-attribute-prefix= --yaml-output"},
	{"xmllint", Read, "", "--format --html --noout --nonet --nowarning --pretty= --recover --version --xpath="},
	{"shellcheck", Read, "other=a,x,check-sourced,external-sources", "-aVx -C? -e= -f= -i= -o= -P= -s= -S= -W= --check-sourced --color? --exclude= --external-sources --format= --include= --list-optional --norc --enable= --source-path= --shell= --severity= --version --wiki-link-count= --help"},
	{"gofmt", Read, "", "-dels"},
	{"namei", List, "free", "-lmnovx --long --modes --nosymlinks --owners --vertical --mountpoints"},
	{"lsattr", List, "free here", "-adlpRvV"},
	{"getfacl", Read, "free", "-aceEndLpPRst --absolute-names --access --all-effective --default --logical --no-effective --numeric --omit-header --physical --recursive --skip-base --tabular"},
	{"getfattr", Read, "free", "-dhLPR -e= -m= -n= --absolute-names --dump --encoding= --logical --match= --name= --no-dereference --only-values --physical --recursive"},
	{"findmnt", List, "free from=none", "-aAcDefhiJklmnPrRRsuvVy -d= -F< -M= -N= -O= -o= -S= -T= -t= --all --ascii --bytes --canonicalize --df --evaluate --first-only --fstab --json --kernel --list --mountpoint= --mtab --noheadings --notruncate --options= --output= --output-all --pairs --raw --real --source= --submounts --target= --tree --types= --uniq"},
	{"mountpoint", List, "free", "-dnqx --devno --fs-devno --nofollow --quiet"},
	{"lspci", List, "from=none most=none", "-bDkmntvx -d= -s="},
	{"lsusb", List, "from=none most=none", "-tvV -d= -s= -D="},
	{"lsmod", List, "from=none most=none", "-sv"},
	{"sysctl", Read, "from=none", "-aAbNnqX --all --binary --names --pattern= --quiet --values"},
	{"dpkg-query", Read, "from=none", "-lLsSW -f= --list --listfiles --search --show --showformat= --status"},
	{"dpkg", Read, "from=none", "-lLsS --audit --get-selections --list --listfiles --print-architecture --search --status"},
	{"rpm", Read, "from=none", "-acdfilqRsv --all --changelog --configfiles --docfiles --file --info --last --list --provides --qf= --query --queryformat= --requires --scripts --state --whatprovides --whatrequires"},
	{"tokei", Read, "here tree=*", "-CfhlV -c= -e= -n= -o= -s= -t= --columns= --compact --exclude= --files --hidden --languages --no-ignore --no-ignore-dot --no-ignore-parent --no-ignore-vcs --num-format= --output= --sort= --type= --types= --version"},
	{"scc", Read, "here tree=*", "-acdilmpuvwz -f= -i= -M= -n= -s= -x= --by-file --binary --ci --exclude-dir= --exclude-ext= --format= --include-ext= --languages --no-cocomo --no-complexity --no-duplicates --no-size --not-match= --sort= --version --wide"},
	{"sleep", Neutral, "free from=none", ""},
	{"yes", Neutral, "free from=none", ""},
	{"look", Search, "from=1", "-abdf -t= --alternative --alphanum --ignore-case --terminate="},
	{"rg", Search, "from=grep here tree=* follow=L,follow", "exact -aFHIilLnNoPpqsSTUuvVwxhc0 -# -A= -B= -C= -E= -e= -f< -g= -j= -m= -M= -r= -t= -T= -d= --after-context= --before-context= --context= --color= --colors= --column --no-column --context-separator= --count --count-matches --crlf --no-crlf --debug --dfa-size-limit= --encoding= --engine= --field-context-separator= --field-match-separator= --file< --files --files-with-matches --files-without-match --fixed-strings --no-fixed-strings --follow --glob= --glob-case-insensitive --heading --no-heading --help --hidden --no-hidden --iglob= --ignore-case --ignore-file< --ignore-file-case-insensitive --include-zero --invert-match --json --line-buffered --line-number --no-line-number --line-regexp --max-columns= --max-columns-preview --max-count= --max-depth= --maxdepth= --max-filesize= --mmap --no-mmap --multiline --multiline-dotall --no-config --no-ignore --no-ignore-dot --no-ignore-exclude --no-ignore-files --no-ignore-global --no-ignore-messages --no-ignore-parent --no-ignore-vcs --no-messages --no-require-git --no-unicode --null --null-data --one-file-system --only-matching --passthru --path-separator= --pcre2 --pretty --quiet --regexp= --replace= --smart-case --case-sensitive --sort= --sortr= --stats --text --threads= --trim --type= --type-not= --type-add= --type-clear= --type-list --unrestricted --version --vimgrep --with-filename --no-filename --word-regexp --stop-on-nonmatch --binary --block-buffered --auto-hybrid-regex --byte-offset --hyperlink-format="},
	{"fd fdfind", Search, "from=1 here tree=* follow=L,follow", "-HIuUsigFapLl0q1 -d= -t= -e= -E= -c= -j= -S= --hidden --no-ignore --no-ignore-vcs --unrestricted --case-sensitive --ignore-case --glob --regex --fixed-strings --absolute-path --full-path --follow --list-details --print0 --max-depth= --min-depth= --exact-depth= --type= --extension= --exclude= --color= --threads= --size= --changed-within= --changed-before= --max-results= --quiet --owner= --base-directory= --search-path< --one-file-system --version --help"},
	{"pstree", Inspect, "free from=none", "-aAcghGklnpsStTuUVZ -C= -H= -N= --arguments --ascii --color= --compact-not --highlight-all --highlight-pid= --hide-threads --long --ns-changes --ns-sort= --numeric-sort --show-parents --show-pgids --show-pids --thread-names --uid-changes --unicode --version"},
	{"ps pgrep pidof", Inspect, "free from=none", "-aAcdeEfFgGhHiIjlLmMnNopqrsStTuUvVwxXyZ0123456789 -o= -O= -p= -C= -u= -U= -t= -g= -G= -d= -P= -x --forest --sort= --format= --pid= --ppid= --user= --cols= --columns= --width= --rows= --headers --no-headers --full --list-name --list-full --newest --oldest --exact --count --parent= --session= --terminal= --euid= --uid= --group= --show-pids --arguments --ascii --long --numeric-sort --version --help"},
	{"ss", Inspect, "from=none", "-hHnaltpuxomeiZ460SdwOs --numeric --all --listening --tcp --udp --processes --unix --extended --memory --info --summary --no-header --oneline --ipv4 --ipv6 --options --version --help"},
	{"netstat", Inspect, "from=none", "-aeFgilMnoprstuvwxW46 --all --extend --groups --interfaces --listening --numeric --numeric-hosts --numeric-ports --numeric-users --programs --raw --route --statistics --tcp --timers --udp --unix --verbose --wide --version --help"},
	{"lsof", Inspect, "from=none", "-abCGhHKlMnNOPRtUvVwXyzZ -c= -d= -F? -g? -i? -p= -s? -S? -T? -u="},
	{"fuser", Inspect, "from=none", "-acImMsuv46 -n= --all --list-signals --mount --namespace= --silent --user --verbose --version"},
	{"top", Inspect, "from=none most=none", "-1bcHiSs -d= -E= -e= -n= -o= -p= -u= -U= -w?"},
	{"pmap", Inspect, "from=none", "-dpqxX --device --extended --quiet --show-path --version"},
	{"pwdx", Inspect, "from=none", ""},
	{"lsns", Inspect, "from=none", "-Jlnru -o= -p= -t= --json --list --noheadings --notruncate --output= --raw --task= --type="},
	{"ipcs", Inspect, "from=none most=none", "-abclmpqstu -i= --all --bytes --creator --human --id= --limits --pid --queues --semaphores --shmems --summary --time"},
	{"w", Inspect, "from=none", "-fhiops --from --ip-addr --no-header --old-style --short"},
	{"who", Read, "", "-abdHlmpqrstTuw --all --boot --count --dead --heading --login --mesg --message --process --runlevel --short --time --users --writable"},
	{"last lastlog", Neutral, "from=none", "-abHilmqrstTuw -n= --all"},
	{"vmstat", Neutral, "from=none", "-adfmnstwy -p= -S= --active --disk --forks --one-header --slabs --stats --timestamp --unit= --wide"},
	{"iostat", Neutral, "from=none", "-cdhkmNstxyz -j= -o= -p?"},
	{"wait", Neutral, "from=none", "-n"},
	{"jobs", Neutral, "from=none", "-lnprs"},
	{"times break continue exit return shift dirs", Neutral, "free from=none", "-#"},
}

// forms are commands that are read-only as they stand here, and not else: a program
// and one word. Most ask a program which version it is.
var forms = sync.OnceValue(func() map[string]bool {
	table := map[string]bool{"alias": true, "umask": true, "mount": true, "history": true, "hash": true, "dmesg": true, "ifconfig": true}
	for word, names := range map[string]string{
		"--version": "apt bash bun bunzip2 cargo cc clang clang++ cmake cp curl cut deno docker dotnet emacs find g++ gawk gcc gh git go gofmt gradle helm java jq kotlin ld less ln lua make meson mkdir mv mvn mypy nano ninja node npm npx openssl php pip pip3 pnpm podman poetry psql pytest python python3 rm rsync ruby rustc rustup sed sqlite3 swift tar touch tsc uv vim wget zsh",
		"--help":    "apt bash bun cargo cc clang cmake cp curl docker find gcc gh go gofmt gradle kubectl ln make mkdir mv mvn node npm npx pip pip3 pnpm podman poetry python python3 rm rsync ruby rustc rustup sed tar touch tsc uv wget",
		"-V":        "cargo pip pip3 python python3 rustc ssh",
		"-v":        "bun gradle lua mvn node npm perl php pip pip3 pnpm ruby",
		"-version":  "java javac",
		"version":   "go helm openssl",
		"-l":        "crontab kill",
		"-a":        "ulimit stty",
		"-p":        "trap",
		"size":      "stty",
	} {
		for name := range strings.FieldsSeq(names) {
			table[name+" "+word] = true
		}
	}
	for _, form := range []string{
		"perl --version", "javac --version", "tput cols", "tput lines", "tput colors", "ip addr", "ip a", "ip address", "ip route", "ip r", "ip link", "ip l",
		"ulimit -c", "ulimit -d", "ulimit -f", "ulimit -l", "ulimit -m", "ulimit -n", "ulimit -s", "ulimit -t", "ulimit -u", "ulimit -v",
	} {
		table[form] = true
	}
	return table
})

// known kinds of commands that are not read-only.
var kinds = []struct {
	kind  Kind
	names string
}{
	{Write, "dd truncate install mktemp split csplit patch shred fallocate mkfifo mknod unlink link sync setfattr setfacl chattr rsync zip zstd cpio ar strip objcopy ed ex dos2unix unix2dos"},
	{Inspect, "htop dmesg journalctl ip ifconfig"},
	{Network, "curl wget nc ncat netcat telnet ssh scp sftp ftp ping ping6 dig host nslookup getent traceroute tracepath whois socat nmap aria2c http https lynx w3m links mail sendmail arp route"},
	{Executes, "eval source . trap python python2 python3 perl ruby node nodejs deno bun php lua tclsh java go cargo rustc gcc g++ cc clang make gmake cmake ninja npm npx yarn pnpm pip pip3 uv poetry mvn gradle dotnet docker podman kubectl gdb lldb man info less more most vi vim nvim emacs nano parallel expect screen tmux at batch crontab systemctl service ld ldd dc m4 tclsh awka rpm dpkg apt apt-get yum dnf brew snap sh bash dash zsh ksh ash csh tcsh fish"},
}

var commands = sync.OnceValue(func() map[string]*command {
	table := make(map[string]*command, 200)
	for _, r := range rows {
		c := &command{kind: r.kind, flags: flagSet(r.flags)}
		for opt := range strings.FieldsSeq(r.opts) {
			name, value, _ := strings.Cut(opt, "=")
			switch {
			case name == "free":
				c.free = true
			case name == "here":
				c.here = true
			case name == "whole":
				c.whole = strings.Split(value, ",")
			case name == "other":
				c.other = strings.Split(value, ",")
			case name == "tree":
				c.tree = strings.ReplaceAll(value, ",", " ")
			case name == "follow":
				c.follow = strings.ReplaceAll(value, ",", " ")
			case opt == "from=none":
				c.from = -1
			case opt == "from=grep":
				c.pattern, c.from = true, 1
			case opt == "from=1":
				c.from = 1
			case opt == "most=1":
				c.most = 1
			case opt == "most=none":
				c.most = -1
			}
		}
		for name := range strings.FieldsSeq(r.names) {
			table[name] = c
		}
	}
	for name, words := range loads {
		table[name].loads = words
	}
	for names, check := range checks {
		for name := range strings.FieldsSeq(names) {
			table[name].check = check
		}
	}
	return table
})

var others = sync.OnceValue(func() map[string]Kind {
	table := make(map[string]Kind, 200)
	for _, k := range kinds {
		for name := range strings.FieldsSeq(k.names) {
			table[name] = k.kind
		}
	}
	return table
})

// checks are what flags alone do not say.
var checks = map[string]func(a *args) string{
	"date": func(a *args) string {
		for _, op := range a.operands {
			if !strings.HasPrefix(op.prefix(), "+") {
				return "an operand without + sets the clock"
			}
		}
		return ""
	},
	"xmllint": func(a *args) string {
		for _, op := range a.operands {
			if !op.Known || strings.Contains(op.Value, ":") {
				return "an operand may be an address of the network"
			}
		}
		return ""
	},
	"ag": func(a *args) string {
		// What is no number it takes for its pattern, or for another flag.
		for _, lines := range a.all("A", "B", "C", "after", "before", "context") {
			if !lines.Known || lines.Value != "" && !isInteger(lines.Value) {
				return "a number of lines that is none may be a flag"
			}
		}
		return ""
	},
	"nm size readelf objdump strings c++filt": func(a *args) string {
		for _, op := range a.operands {
			if strings.HasPrefix(op.Value, "@") {
				return "an operand with @ is a file of more flags"
			}
		}
		for _, f := range a.flags {
			if f.next && (!f.value.operand() || strings.HasPrefix(f.value.Value, "@")) {
				return "the value of a flag may be a file of more flags"
			}
		}
		return ""
	},
	"gzip gunzip bzip2 bunzip2 xz unxz": packs,
	"ss":                                ssHosts,
	"lsof":                              lsofHosts,
	"fuser":                             fuserHosts,
	"bat batcat": func(a *args) string {
		for _, paging := range a.all("paging") {
			if paging.Value != "never" || !paging.Known {
				return "it may run a pager"
			}
		}
		if len(a.operands) > 0 && (a.operands[0].Value == "cache" || !a.operands[0].Known) {
			return "an operand may be its command cache, which writes"
		}
		return ""
	},
	"top": func(a *args) string {
		if !a.has("b") || !a.has("n") {
			return "without -b and -n it waits for keys"
		}
		return ""
	},
	"sysctl": func(a *args) string {
		for _, op := range a.operands {
			if !op.Known || strings.Contains(op.Value, "=") {
				return "an operand with = sets"
			}
		}
		return ""
	},
	"yq": func(a *args) string {
		for i, op := range a.operands {
			// The first is its expression, or its command.
			if i < 2 && !op.Known && (i == 0 || strings.HasPrefix(a.operands[0].Value, "e")) || strings.Contains(op.Value, "system") {
				return "its expression is not known, or may run programs"
			}
		}
		return ""
	},
	"rpm": func(a *args) string {
		if !a.has("q", "query") {
			return "without -q it changes what is installed"
		}
		return ""
	},
	"unzip": func(a *args) string {
		if !a.has("l", "v", "t", "p", "c", "Z") {
			return "it writes files but with -l, -v, -t, -p or -Z"
		}
		return ""
	},
}

// loads are commands whose program may name files, and the words by which it does.
var loads = map[string][]string{"jq": {"import", "include"}, "yq": {"load"}}

// packs is for commands that replace files, but with flags that send them to the
// output, or only look.
func packs(a *args) string {
	if a.has("c", "stdout", "to-stdout") || a.has("l", "list", "t", "test") && !a.has("d", "decompress", "uncompress") {
		return ""
	}
	return "it changes files but with -c, -l or -t"
}
