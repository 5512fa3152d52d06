// Built by make scripts: change the modules.
function r(e){let t=window;return t[e]??=new Map}function c(e){let t=r("heedmapScripts");return t.has(e)||t.set(e,{draw:null,waiting:[]}),t.get(e)}function i(e,t){let{draw:n,waiting:o}=c(e);n?t(n):o.push(t)}function p(e){let t=!1,n=()=>{};return i(e.name,o=>{t||(n=o(e))}),()=>{t=!0,n()}}export{p as default};
